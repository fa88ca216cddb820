/** The options of a dashboard, checked before anything is served. One that anybody could open is refused. */
import { HoldfastError } from 'holdfast';
import { checkKnown, type Known, shown } from 'holdfast/internal';
import type { Redact } from './guard/redact.js';
import type { LabHook } from './pages/live-lab.js';

/** Who looks, and whether they may act. */
export interface Visitor {
  /** Their name, for the audit. */
  readonly actor: string;
  /** May act, if the dashboard's own `write` is true too. Default false. */
  readonly write?: boolean;
}

/** Options of the dashboard. */
export interface DashboardOptions {
  /** Where it is mounted, such as `/ops/jobs`. Default `/`. */
  readonly path?: string;
  /** Let people act on jobs, queues, schedules and workers. Default false: they only look. */
  readonly write?: boolean;
  /** Lets in everybody who knows it, by a form or as a bearer token. At least 16 characters. Default: none. */
  readonly token?: string;
  /** Your own sign-in: returns who makes the request, or null to refuse it. Default: none. */
  readonly authorise?: (request: Request) => Visitor | null | Promise<Visitor | null>;
  /** Let in direct requests to a loopback name. Only for a server bound to 127.0.0.1. Default false. */
  readonly loopback?: boolean;
  /** Names under which it answers, such as `ops.example.com`. Default: any; with `loopback`, loopback names. */
  readonly hosts?: readonly string[];
  /** Gets each payload, result, header and error; what it returns is shown instead. Default: all is shown. */
  readonly redact?: Redact;
  /** The name in the audit if `authorise` gives none. Default `dashboard`. */
  readonly actor?: string;
  /** For a demo: a fleet whose processes people kill and freeze on the page. Default: none. */
  readonly lab?: LabHook;
}

export const DASHBOARD_OPTIONS = {
  ...{ path: true, write: true, token: true, authorise: true, loopback: true, hosts: true },
  ...{ redact: true, actor: true, lab: true },
} as const satisfies Known<DashboardOptions>;

/** The options with their defaults. `base` begins and ends with a slash. */
export interface Settings extends Omit<DashboardOptions, 'path'> {
  readonly base: string;
  readonly write: boolean;
  readonly actor: string;
}

const MIN_TOKEN = 16;
const PATH = /^(\/(?!\.{1,2}(\/|$))[\w.~-]+)*\/?$/;

const refused = (problem: string) =>
  new HoldfastError('OPTION_INVALID', `${problem} No dashboard was made.`);

export function checkToken(token: unknown): void {
  if (token === undefined) return;
  if (typeof token === 'string' && token.length >= MIN_TOKEN) return;
  throw refused(
    `The token has ${typeof token === 'string' ? `only ${token.length} characters` : 'no text'}; ` +
      `it must have at least ${MIN_TOKEN}. \`openssl rand -hex 16\` makes one.`,
  );
}

export function checkOptions(options: DashboardOptions): Settings {
  checkKnown(options, DASHBOARD_OPTIONS, 'dashboard()', 'No dashboard was made.');
  const { path = '/', write = false, actor = 'dashboard', token, authorise, loopback } = options;
  if (typeof path !== 'string' || !PATH.test(path))
    throw refused(`path is ${shown(path)}; write it like "/ops/jobs".`);
  checkToken(token);
  if (authorise !== undefined && typeof authorise !== 'function')
    throw refused(`authorise is ${shown(authorise)}, and not a function.`);
  if (!token && !authorise && loopback !== true)
    throw refused(
      'Anybody could open it: pass token, authorise, or loopback: true if only this machine reaches it.',
    );
  const base = path.endsWith('/') ? path : `${path}/`;
  return { ...options, base, write: write === true, actor };
}
