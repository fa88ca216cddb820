/** `holdfast migrate`: bring the schema to this version, say where it stands, or print what would run. */
import { type Command, UsageError } from './command.js';

export const migrateCommand: Command = {
  usage: 'migrate [--status | --sql]',
  summary: 'bring the schema to this version; --status only tells, --sql prints what would run',
  flags: ['status', 'sql'],
  async run({ hf, args, flags, print, note }) {
    if (args.length > 0)
      throw new UsageError(`migrate takes no argument, but "${args[0]}" was given.`);
    if (flags.status && flags.sql) throw new UsageError('Give --status or --sql, not both.');
    if (flags.sql) {
      const sql = await hf.pendingSql();
      if (sql === '') note('Nothing would run: the schema is up to date.');
      else print(sql);
      return;
    }
    const before = await hf.migrationStates();
    const states = flags.status ? before : await hf.migrate();
    for (const { id, name, appliedAt, known } of states) {
      const when = appliedAt ? `applied ${appliedAt.toISOString()}` : 'pending';
      print(
        `${String(id).padStart(4, '0')} ${name} ${when}${known ? '' : ' (by a newer version)'}`,
      );
    }
    if (flags.status) return;
    const done = before.filter(({ appliedAt }) => appliedAt === null).length;
    note(
      done === 0
        ? 'Nothing to do: the schema is up to date.'
        : `Applied ${done} migration(s) to "${hf.schema}".`,
    );
  },
};
