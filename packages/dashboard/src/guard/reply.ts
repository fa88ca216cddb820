/** Responses, all with the headers that keep a browser from doing what nobody asked for. */

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
