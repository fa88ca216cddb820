/**
 * Every error as one line for a person: what is wrong, that nothing was done (or how much), and the fix;
 * and the exit code. No line carries the database's URL, which holds a password.
 */
import { HoldfastError } from '../job/errors/holdfast-error.js';
import { isTransient } from '../postgres/connect/transient.js';
import { quoteName } from '../postgres/names.js';
import { type Command, EXIT } from './command.js';
import { Failure, Interrupted, Partly, UsageError } from './failures.js';
import { plain } from './print/table.js';

interface Ending {
  readonly text: string;
  readonly exit: number;
}

const USAGE_CODES = new Set(['OPTION_INVALID', 'NAME_INVALID', 'TYPE_INVALID', 'KEY_INVALID']);
const CHECK_URL = 'check --url, DATABASE_URL or PGHOST';

/** By SQLSTATE: what to do about it. */
const FIXES: Readonly<Record<string, string>> = {
  '28P01': 'check the user and the password in --url or DATABASE_URL, or PGUSER and PGPASSWORD',
  '28000': `check the user in --url or DATABASE_URL, or PGUSER, and the server's pg_hba.conf`,
  '3D000': `create the database first, or ${CHECK_URL}`,
  '42501':
    'connect as the owner of the schema, or grant what is missing (node_modules/holdfast/dist/roles.sql)',
  '42P01': 'run `holdfast migrate`, or check --schema',
  '42703': 'run `holdfast migrate` with this version',
  '3F000': 'run `holdfast migrate`, or check --schema',
  '40001': 'somebody else changed the same rows; try again',
  '40P01': 'somebody else was in the way; try again',
  '53300':
    'no connection is left: close some, or raise max_connections, or the CONNECTION LIMIT of the database or the role',
  '55P03':
    'somebody holds a lock that it needs; `holdfast doctor` says who, with the statement to end it',
  '57014':
    'it took longer than a question may, or somebody cancelled it; `holdfast doctor` says what slows the server down, and a filter makes a list shorter',
  '25006':
    'the session may only read: the server is a replica, so connect to the primary; or default_transaction_read_only is on, and `holdfast doctor` says for whom',
};

/** One code for three limits; a server that speaks another language gets the general text. */
const CONNECTION_LIMIT = /^too many connections for (database|role) "(.*)"$/;

function fixOf(code: string, message: string): string | undefined {
  const [, kind, name] = CONNECTION_LIMIT.exec(message) ?? [];
  if (code !== '53300' || !kind || name === undefined) return FIXES[code];
  return `the ${kind} has a limit of its own, and the server may have room: close some, or run as an administrator ALTER ${kind.toUpperCase()} ${quoteName(name)} CONNECTION LIMIT -1;`;
}

const NOTHING = 'Nothing was done';

/** `command` is the one that was running, if it was found; `fix` is what was found out about this error. */
export function ending(error: unknown, command?: Command, fix?: string): Ending {
  if (error instanceof Partly) {
    const { text, exit } = ending(error.cause, command, fix);
    const said = text.includes(NOTHING);
    return { text: said ? text.replace(NOTHING, error.done) : `${text}. ${error.done}.`, exit };
  }
  if (error instanceof Interrupted)
    return { text: `Interrupted. ${NOTHING}.`, exit: EXIT.interrupted };
  const code = (error as { code?: unknown } | null)?.code;
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof UsageError) {
    const words = error.words ?? command?.words ?? [];
    const help = ['holdfast', ...words, '--help'].join(' ');
    return { text: `${message}\nTry: ${help}`, exit: EXIT.usage };
  }
  if (error instanceof Failure) return { text: message, exit: EXIT.failed };
  if (error instanceof HoldfastError) {
    return { text: message, exit: USAGE_CODES.has(error.code) ? EXIT.usage : EXIT.failed };
  }
  if (code === 'ERR_INVALID_URL') {
    return {
      text: 'The database URL cannot be read. Nothing was done: write postgres://user:password@host:port/database.',
      exit: EXIT.usage,
    };
  }
  const known = typeof code === 'string' ? fixOf(code, message) : undefined;
  if (known) {
    return {
      text: `${plain(message)} (${code}). Nothing was done: ${(fix ?? known).replace(/(?<![.;])$/, '.')}`,
      exit: EXIT.failed,
    };
  }
  if (isTransient(error)) {
    const what = typeof code === 'string' ? code : plain(message);
    return {
      text: `The database cannot be reached (${what}). Nothing was done: is it running? Else ${CHECK_URL}.`,
      exit: EXIT.failed,
    };
  }
  const tail = typeof code === 'string' ? ` (${code})` : '';
  return { text: `${plain(message)}${tail}`, exit: EXIT.failed };
}
