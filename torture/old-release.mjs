// The release before this one, as one file, and a schema as it made it. Both are part of the tests of the upgrade.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { sql } from './server.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** What a process gets that runs the old release; the new one needs nothing. */
export const OLD_RELEASE = {
  release: 'old',
  product: join(ROOT, 'test/support/upgrade/holdfast-53a3d42.mjs'),
};
export const NEW_RELEASE = { release: 'new', product: undefined };

const text = (name) => readFileSync(join(ROOT, `test/support/upgrade/0.1/${name}.sql`), 'utf8');

/** From the texts of that release, word for word. */
export async function makeOldSchema(url, dist, queues) {
  const part = (path) => import(pathToFileURL(join(dist, path)).href);
  const { loadText } = await part('postgres/names.js');
  const { recordsTable } = await part('schema/texts.js');
  const queueText = (queue) =>
    loadText(`${text('queue')}${text('register')}`, { schema: 'holdfast', queue });
  const ordered = ({ name, ordering }) =>
    `UPDATE holdfast.queues SET ordering = '${ordering}' WHERE name = '${name}';`;
  await sql(
    url,
    [
      'CREATE SCHEMA holdfast;',
      recordsTable('holdfast'),
      text('schema'),
      ...['inbox', ...queues.map(({ name }) => name)].map(queueText),
      `INSERT INTO holdfast.migrations (id, name, breaks_before) VALUES (1, 'engine', 1);`,
      ...queues.map(ordered),
    ].join('\n'),
  );
}
