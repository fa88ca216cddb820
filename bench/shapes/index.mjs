// The shapes, each measured by its own file, which exports `run({ fresh, rounds, size, figure, fact, raw, say })`. `fresh()` is
// the URL of a new database with the schema of Holdfast. `--only outbox` runs one of them.
import pg from 'pg';
import { openDatabases } from '../databases.mjs';

const FILES = ['outbox', 'webhooks', 'receive', 'projections', 'protocol'];

async function load(name) {
  try {
    return await import(`./${name}.mjs`);
  } catch (error) {
    // A shape without a measurement of its own.
    if (error.code === 'ERR_MODULE_NOT_FOUND' && error.message.includes(`/shapes/${name}.mjs`))
      return null;
    throw error;
  }
}

export async function shapes({ url, only, stage, entries, ...context }) {
  if (only !== null && !FILES.includes(only))
    throw new Error(`--only takes one of ${FILES.join(', ')}, not "${only}".`);
  const { holdfast } = await import('../../packages/holdfast/dist/index.js');
  const admin = new pg.Client({ connectionString: url });
  admin.on('error', () => {});
  await admin.connect();
  const databases = openDatabases(admin, url);
  const system = {
    name: 'holdfast',
    async prepare(there) {
      const hf = holdfast({ connectionString: there });
      await hf.migrate();
      await hf.close();
    },
  };
  const rounds = (full, small) => context.options.rounds ?? context.size(full, small);
  for (const name of only === null ? FILES : [only]) {
    const file = await load(name);
    if (!file) continue;
    context.say(`${name} …`);
    try {
      await file.run({ ...context, rounds, fresh: () => databases.fresh(system) });
    } catch (error) {
      console.error(error);
      context.figure(`shapes.${name}`, `did not end: ${error.message}`, 'to end', false);
    }
  }
  await databases.close();
  await admin.end();
}
