/** Responses, all with headers that restrain a browser. A failure is a status and a sentence, never a stack or what a row held. */
import { HoldfastError, type HoldfastErrorCode, type Logger } from 'holdfast';
import { isOutage } from 'holdfast/internal';

const CSP = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'self'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

const ALWAYS = {
  'content-security-policy': CSP,
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
} as const;

type Headers = Readonly<Record<string, string>>;

export const reply = (
  status: number,
  body: string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | null,
  headers: Headers = {},
): Response => new Response(body, { status, headers: { ...ALWAYS, ...headers } });

const JSON_TYPE = { 'content-type': 'application/json; charset=utf-8' };

export const jsonText = (text: string): Response => reply(200, text, JSON_TYPE);

export const json = (status: number, value: unknown, headers: Headers = {}): Response =>
  reply(status, JSON.stringify(value), { ...JSON_TYPE, ...headers });

export const problem = (status: number, message: string, headers: Headers = {}): Response =>
  json(status, { error: message }, headers);

export const html = (status: number, text: string, headers: Headers = {}): Response =>
  reply(status, text, { 'content-type': 'text/html; charset=utf-8', ...headers });

/** A refusal that a route throws; everything else that it throws is a failure. */
export class Refused extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** The same policy with the one inline style of a page that has no other file. */
export const withStyle = (hash: string): Headers => ({
  'content-security-policy': CSP.replace("style-src 'self'", `style-src '${hash}'`),
});

/** The lab's page may start its one thread, and that one may compile WebAssembly; all else is as strict as elsewhere. */
export const forLab: Headers = {
  'content-security-policy': CSP.replace(
    "script-src 'self'",
    "script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'",
  ).replace("trusted-types 'none'", 'trusted-types holdfast-lab'),
};

const CODES: Readonly<Record<number, readonly HoldfastErrorCode[]>> = {
  400: [
    ...(['OPTION_INVALID', 'NAME_INVALID', 'KEY_INVALID', 'TYPE_INVALID', 'TYPE_UNKNOWN'] as const),
    ...(['PAYLOAD_INVALID', 'PAYLOAD_NOT_JSON', 'PAYLOAD_TOO_LARGE'] as const),
  ],
  404: [
    ...(['QUEUE_UNKNOWN', 'JOB_UNKNOWN', 'SCHEDULE_UNKNOWN', 'LIMIT_UNKNOWN'] as const),
    ...(['ENDPOINT_UNKNOWN', 'PROJECTION_UNKNOWN'] as const),
  ],
  409: ['JOB_STATE', 'RUN_GONE', 'PROJECTION_CLUSTER'],
  503: ['LOCKED', 'POOL_BUSY', 'SCHEMA_MISSING', 'SCHEMA_TOO_OLD', 'SCHEMA_TOO_NEW'],
};

// A zero byte, a time beyond all times: what was asked for, not what was found.
const VALUE = 'The database refuses a value of this request: {}.';
const LACKS = 'The database has not what this asks for ({}). Run `holdfast migrate`.';

/** By code of Postgres, whose own words stand for `{}`. */
const SQLSTATES: Readonly<Record<string, readonly [status: number, message: string]>> = {
  '57014': [503, 'The database took too long to answer; narrow the filter.'],
  '55P03': [503, 'Another session holds a lock on it; nothing was done. Try again, or see Health.'],
  '22021': [400, VALUE],
  '22008': [400, VALUE],
  '42P01': [503, LACKS],
  '3F000': [503, LACKS],
  '42501': [403, 'The database refuses this: {}. See `holdfast doctor`.'],
};

/** Null: something that nobody foresaw. */
export function known(error: unknown): { status: number; message: string } | null {
  if (error instanceof Refused) return { status: error.status, message: error.message };
  if (error instanceof HoldfastError) {
    const found = Object.entries(CODES).find(([, codes]) => codes.includes(error.code));
    return found ? { status: Number(found[0]), message: error.message } : null;
  }
  const { code, message: said } = (error ?? {}) as { code?: unknown; message?: unknown };
  const foreseen = Object.hasOwn(SQLSTATES, String(code)) && SQLSTATES[String(code)];
  if (foreseen)
    return { status: foreseen[0], message: foreseen[1].replace('{}', () => String(said)) };
  if (isOutage(error))
    return { status: 503, message: 'The database cannot be reached; trying again.' };
  return null;
}

/** Of an act it is not known how far it came; its row in the audit was written in its own transaction. */
export const outageOfAct = (error: unknown): unknown =>
  isOutage(error)
    ? new Refused(
        503,
        'The database cannot be reached. What was done has a row in the audit: look there before you try again.',
      )
    : error;

export function failure(error: unknown, log: Logger): Response {
  const foreseen = known(error);
  if (foreseen) return problem(foreseen.status, foreseen.message);
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown };
  log.error({ code, err: String(message) }, 'the dashboard could not answer');
  return problem(500, 'Something failed here. The log of the dashboard has the error.');
}
