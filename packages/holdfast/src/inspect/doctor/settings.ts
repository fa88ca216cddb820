/** Settings of the server, the database or the role that a queue suffers from, and the statement that undoes each. */
import type { Executor } from '../../postgres/queryable.js';
import { type Row, statement, text } from '../../postgres/statement.js';
import { span } from '../reading/words.js';
import { type Finding, lines, note, ok, problem } from './doctor.js';

// Asked on a session without settings of ours: `source` would say that they come from here.
export const askSettings = statement({
  name: 'doctor_settings',
  text: `
SELECT s.name, coalesce(s.reset_val, '') AS value, s.source, quote_ident(current_user) AS user_name,
  quote_ident(current_database()) AS database_name
FROM pg_settings AS s
WHERE s.name IN ('statement_timeout', 'transaction_timeout', 'idle_session_timeout', 'default_transaction_read_only',
  'synchronous_commit')
ORDER BY s.name`,
  columns: { name: text, value: text, source: text, user_name: text, database_name: text },
});

export type Setting = Row<typeof askSettings.columns>;

export function readSettings(db: Executor, schema: string): Promise<Setting[]> {
  return db.run(askSettings, { schema, queue: 'inbox' }, []);
}

/** Where `pg_settings` says that a setting comes from, in words. */
const SOURCES: Readonly<Record<string, string>> = {
  user: 'this user',
  database: 'this database',
  'database user': 'this user in this database',
  global: 'all users',
  client: 'this connection',
};

/** The statement that undoes it where it was set. */
export function undo({ name, source, userName, databaseName }: Setting, good: string): string {
  if (source === 'user') return `ALTER ROLE ${userName} RESET ${name};`;
  if (source === 'database') return `ALTER DATABASE ${databaseName} RESET ${name};`;
  if (source === 'database user')
    return `ALTER ROLE ${userName} IN DATABASE ${databaseName} RESET ${name};`;
  if (source === 'global') return `ALTER ROLE ALL RESET ${name};`;
  if (source === 'client') return `Take ${name} out of the connection string, or of PGOPTIONS.`;
  if (source === 'command line') return `Take ${name} off the server's command line.`;
  return lines(`ALTER SYSTEM SET ${name} = ${good};`, 'SELECT pg_reload_conf();');
}

const LOSES = 'A job that enqueue has accepted can be gone after a crash of the server.';

/** By name: when it is well, and what it does otherwise. */
const JUDGED: Readonly<Record<string, (setting: Setting, whose: string) => Finding | null>> = {
  synchronous_commit: (setting, whose) =>
    setting.value !== 'off'
      ? ok('synchronous_commit', setting.value)
      : problem(
          'synchronous_commit',
          `synchronous_commit is off for ${whose}.`,
          `${LOSES} The same holds for completions: those jobs run again.`,
          undo(setting, 'on'),
        ),
  default_transaction_read_only: (setting, whose) =>
    setting.value === 'off'
      ? null
      : problem(
          'read only',
          `default_transaction_read_only is on for ${whose}.`,
          'Producers and workers that connect like this cannot write: enqueues fail, and no job is claimed.',
          undo(setting, 'off'),
        ),
  statement_timeout: (setting, whose) =>
    setting.value === '0'
      ? ok('statement_timeout', 'off')
      : note(
          'statement_timeout',
          `statement_timeout is ${span(Number(setting.value))} for ${whose}.`,
          'Workers turn it off for their own statements. It still cuts short what you run as this user: enqueues, statements in ctx.transaction, migrations.',
          lines('If such statements may take longer:', undo(setting, '0')),
        ),
  transaction_timeout: (setting, whose) =>
    setting.value === '0'
      ? null
      : note(
          'transaction_timeout',
          `transaction_timeout is ${span(Number(setting.value))} for ${whose}.`,
          'It ends the session of a ctx.transaction that lasts longer, and its handler fails.',
          lines('If handlers keep transactions open for longer:', undo(setting, '0')),
        ),
  idle_session_timeout: (setting, whose) =>
    setting.value === '0'
      ? null
      : note(
          'idle_session_timeout',
          `idle_session_timeout is ${span(Number(setting.value))} for ${whose}.`,
          "It ends the sessions on which idle workers listen and pools wait; they are opened again, and meanwhile a worker's liveness lock is free.",
          lines('For the role of the workers turn it off:', undo(setting, '0')),
        ),
};

export function judgeSettings(settings: readonly Setting[]): Finding[] {
  return settings.flatMap((setting) => {
    const whose = SOURCES[setting.source] ?? 'the whole server';
    return JUDGED[setting.name]?.(setting, whose) ?? [];
  });
}
