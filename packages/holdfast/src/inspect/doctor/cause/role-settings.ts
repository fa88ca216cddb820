/**
 * Settings that a role or a database gives to the sessions of those who work here. What this session has itself is judged
 * in settings.ts; here is what others get, which no session but theirs shows.
 */
import { quoteName } from '../../../postgres/names.js';
import { text } from '../../../postgres/statement.js';
import { type Answer, asks } from '../../reading/asks.js';
import { span } from '../../reading/words.js';
import { type Finding, LOSES, lines, note, problem } from '../doctor.js';

export const readRoleSettings = asks({
  name: 'doctor_role_settings',
  text: `
SELECT r.rolname::text AS role, d.datname::text AS database, split_part(c.setting, '=', 1) AS name,
  substr(c.setting, strpos(c.setting, '=') + 1) AS value
FROM pg_db_role_setting AS s
LEFT JOIN pg_roles AS r ON r.oid = s.setrole
LEFT JOIN pg_database AS d ON d.oid = s.setdatabase
CROSS JOIN LATERAL unnest(s.setconfig) AS c(setting)
WHERE (s.setdatabase = 0 OR d.datname = current_database())
  -- What all get, this session has as well.
  AND r.rolname <> current_user
  AND r.rolname IN (SELECT w.role FROM jsonb_array_elements_text($1::text::jsonb) AS w(role))
ORDER BY r.rolname, d.datname NULLS FIRST, name
LIMIT 1000`,
  columns: { role: text, database: text.orNull, name: text, value: text },
  params: (roles: readonly string[]) => [JSON.stringify(roles)],
});

export type RoleSetting = Answer<typeof readRoleSettings>;

const UNITS: Readonly<Record<string, number>> = {
  ...{ us: 0.001, ms: 1, s: 1_000, min: 60_000, h: 3_600_000, d: 86_400_000 },
};

/** As Postgres reads a time; null: it is none. */
export function timeMs(value: string): number | null {
  const [, number, unit = 'ms'] = /^\s*([\d.]+)\s*([a-z]*)\s*$/.exec(value) ?? [];
  const factor = UNITS[unit || 'ms'];
  return number === undefined || factor === undefined ? null : Number(number) * factor;
}

interface Harm {
  /** Shorter is a note; much shorter is a problem. 0 is off. */
  readonly leastMs: number;
  readonly why: string;
}

/** Less than this part of the least is a problem. */
const MUCH = 10;

const TIMES: Readonly<Record<string, Harm>> = {
  statement_timeout: {
    leastMs: 10_000,
    why: 'Workers turn it off for their own statements. It cuts short what this role runs itself: enqueues, statements in ctx.transaction, commands.',
  },
  lock_timeout: {
    leastMs: 200,
    why: 'Enqueues and statements in ctx.transaction give up at a lock that others hold for a moment only, as maintenance does.',
  },
  idle_in_transaction_session_timeout: {
    leastMs: 20_000,
    why: 'It ends the session of a ctx.transaction whose handler waits for something else, and the handler fails. The same holds for a transaction that enqueues.',
  },
  transaction_timeout: {
    leastMs: 20_000,
    why: 'It ends the session of a ctx.transaction that lasts longer, and its handler fails.',
  },
};

export function judgeRoleSettings(settings: readonly RoleSetting[]): Finding[] {
  return settings.flatMap((setting) => judge(setting) ?? []);
}

const whose = ({ role, database }: RoleSetting) =>
  `the role ${role}${database === null ? '' : ` in this database`}, which works here`;

function undo({ role, database, name }: RoleSetting): string {
  const where = database === null ? '' : ` IN DATABASE ${quoteName(database)}`;
  return `ALTER ROLE ${quoteName(role)}${where} RESET ${name};`;
}

const AGAIN = 'Sessions that are open keep it: restart the program afterwards.';

function judge(setting: RoleSetting): Finding | null {
  const { name, value } = setting;
  const fix = lines(undo(setting), AGAIN);
  if (name === 'default_transaction_read_only' && /^(on|true|yes|1)$/i.test(value)) {
    const why = 'It cannot write: enqueues fail, and no job is claimed.';
    return problem('read only', `${name} is on for ${whose(setting)}.`, why, fix);
  }
  if (name === 'synchronous_commit' && value === 'off') {
    return problem(name, `${name} is off for ${whose(setting)}.`, LOSES, fix);
  }
  if (name === 'search_path') return judgePath(setting, fix);
  const harm = TIMES[name];
  const ms = timeMs(value);
  if (!harm || ms === null || ms === 0 || ms >= harm.leastMs) return null;
  const of = ms * MUCH < harm.leastMs ? problem : note;
  return of(name, `${name} is ${span(ms)} for ${whose(setting)}.`, harm.why, fix);
}

/** Built-in functions and operators are looked for there: what is in a schema before pg_catalog takes their place. */
function judgePath(setting: RoleSetting, fix: string): Finding | null {
  const schemas = setting.value.split(',').map((one) => one.trim().replaceAll('"', ''));
  if (schemas.indexOf('pg_catalog') <= 0) return null;
  return problem(
    'search_path',
    `search_path is ${setting.value} for ${whose(setting)}.`,
    'A function or an operator in a schema before pg_catalog is called in place of the built-in one, in the statements of workers and producers, too.',
    fix,
  );
}
