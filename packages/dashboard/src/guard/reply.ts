/**
 * Responses, all with the headers that keep a browser from doing what nobody asked for. A failure looks from outside like
 * a status and a sentence, never a stack, and never what a row held.
 */
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

/** A text that is JSON already. */
export const jsonText = (text: string): Response => reply(200, text, JSON_TYPE);

export const json = (status: number, value: unknown, headers: Headers = {}): Response =>
  reply(status, JSON.stringify(value), { ...JSON_TYPE, ...headers });

/** A sentence that says what is wrong. */
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

const STATUS: Partial<Record<HoldfastErrorCode, number>> = {
  OPTION_INVALID: 400,
  NAME_INVALID: 400,
  KEY_INVALID: 400,
  TYPE_INVALID: 400,
  QUEUE_UNKNOWN: 404,
  JOB_UNKNOWN: 404,
  SCHEDULE_UNKNOWN: 404,
  LIMIT_UNKNOWN: 404,
  JOB_STATE: 409,
  LOCKED: 503,
  POOL_BUSY: 503,
  SCHEMA_MISSING: 503,
  SCHEMA_TOO_OLD: 503,
  SCHEMA_TOO_NEW: 503,
};

export interface Failed {
  readonly status: number;
  readonly message: string;
}

/** Null: something that nobody foresaw. */
export function known(error: unknown): Failed | null {
  if (error instanceof Refused) return { status: error.status, message: error.message };
  if (error instanceof HoldfastError) {
    const status = STATUS[error.code];
    return status === undefined ? null : { status, message: error.message };
  }
  const { code } = (error ?? {}) as { code?: unknown };
  if (code === '57014')
    return { status: 503, message: 'The database took too long to answer; narrow the filter.' };
  if (code === '55P03')
    return {
      status: 503,
      message: 'Another session holds a lock on it; nothing was done. Try again, or see Health.',
    };
  // A zero byte, a time beyond all times: what was asked for, not what was found.
  if (code === '22021' || code === '22008')
    return {
      status: 400,
      message: `The database refuses a value of this request: ${(error as Error).message}.`,
    };
  if (code === '42P01' || code === '3F000')
    return {
      status: 503,
      message: `The database has not what this asks for (${(error as Error).message}). Run \`holdfast migrate\`.`,
    };
  if (code === '42501')
    return {
      status: 403,
      message: `The database refuses this: ${(error as Error).message}. See \`holdfast doctor\`.`,
    };
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
