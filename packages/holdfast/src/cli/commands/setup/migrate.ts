/** `holdfast migrate`: bring the schema to this version, say where it stands, or print what would run. */
import { withClient } from '../../../postgres/connect/pool.js';
import {
  type MigrationState,
  migrate,
  migrationStates,
  pendingSql,
} from '../../../schema/migrate.js';
import type { Call } from '../../command.js';
import { UsageError } from '../../failures.js';

const line = ({ id, name, appliedAt, known }: MigrationState) =>
  `${String(id).padStart(4, '0')} ${name} ${
    appliedAt ? `applied ${appliedAt.toISOString()}` : 'pending'
  }${known ? '' : ' (by a newer version)'}`;

export async function run({ given, session, out }: Call): Promise<void> {
  if (given.flag('status') && given.flag('sql'))
    throw new UsageError('Give --status or --sql, not both.');
  const { pool, schema } = session;
  if (given.flag('sql')) {
    const sql = await pendingSql(pool, schema);
    if (sql === '') out.note('Nothing would run: the schema is up to date.');
    else await out.line(sql);
    return;
  }
  const before = await migrationStates(pool, schema);
  const pending = given.flag('status') ? '' : await pendingSql(pool, schema);
  const states = given.flag('status')
    ? before
    : await withClient(pool, (client) => migrate(client, schema));
  for (const state of states) await (out.json ? out.value(state) : out.line(line(state)));
  if (given.flag('status')) return;
  const done = before.filter(({ appliedAt }) => appliedAt === null).length;
  out.note(
    done > 0
      ? `Applied ${done} migration(s) to "${schema}".`
      : pending === ''
        ? 'Nothing to do: the schema is up to date.'
        : `Brought functions or queues of "${schema}" up to date.`,
  );
}
