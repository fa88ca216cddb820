import { text } from '../../postgres/statement.js';
import { type Answer, asks } from '../reading/asks.js';
import { span } from '../reading/words.js';
import { type Finding, LOSES, lines, note, ok, problem } from './doctor.js';

// Asked on a session without settings of ours: `source` would say that they come from here.
export const readSettings = asks({
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

export type Setting = Answer<typeof readSettings>;

/** Where `pg_settings` says that a setting comes from, in words. */
const SOURCES: Readonly<Record<string, string>> = {
  user: 'this user',
  database: 'this database',
  'database user': 'this user in this database',
  global: 'all users',
  client: 'this connection',
};

export function undo({ name, source, userName, databaseName }: Setting, good: string): string {
  if (source === 'client') return `Take ${name} out of the connection string, or of PGOPTIONS.`;
  if (source === 'command line') return `Take ${name} off the server's command line.`;
  const where = {
    user: `ROLE ${userName}`,
    database: `DATABASE ${databaseName}`,
    'database user': `ROLE ${userName} IN DATABASE ${databaseName}`,
    global: 'ROLE ALL',
  }[source];
  if (where) return `ALTER ${where} RESET ${name};`;
  return lines(`ALTER SYSTEM SET ${name} = ${good};`, 'SELECT pg_reload_conf();');
}

interface Timeout {
  readonly why: string;
  readonly when: string;
}

const TIMEOUTS: Readonly<Record<string, Timeout>> = {
  statement_timeout: {
    why: 'Workers turn it off for their own statements. It still cuts short what you run as this user: enqueues, statements in ctx.transaction, migrations.',
    when: 'If such statements may take longer:',
  },
  transaction_timeout: {
    why: 'It ends the session of a ctx.transaction that lasts longer, and its handler fails.',
    when: 'If handlers keep transactions open for longer:',
  },
  idle_session_timeout: {
    why: "It ends the sessions on which idle workers listen and pools wait; they are opened again, and meanwhile a worker's liveness lock is free.",
    when: 'For the role of the workers turn it off:',
  },
};

export function judgeSettings(settings: readonly Setting[]): Finding[] {
  return settings.flatMap((setting) => judgeSetting(setting) ?? []);
}

/** Null: it is as it should be, and that is nothing special. */
function judgeSetting(setting: Setting): Finding | null {
  const { name, value } = setting;
  const whose = SOURCES[setting.source] ?? 'the whole server';
  if (name === 'synchronous_commit') {
    if (value !== 'off') return ok(name, value);
    const why = `${LOSES} The same holds for completions: those jobs run again.`;
    return problem(name, `${name} is off for ${whose}.`, why, undo(setting, 'on'));
  }
  if (name === 'default_transaction_read_only') {
    if (value === 'off') return null;
    const why =
      'Producers and workers that connect like this cannot write: enqueues fail, and no job is claimed.';
    return problem('read only', `${name} is on for ${whose}.`, why, undo(setting, 'off'));
  }
  if (value === '0') return name === 'statement_timeout' ? ok(name, 'off') : null;
  const { why, when } = TIMEOUTS[name] as Timeout;
  const text = `${name} is ${span(Number(value))} for ${whose}.`;
  return note(name, text, why, lines(when, undo(setting, '0')));
}
