/**
 * Events over HTTP as CloudEvents 1.0. A 2xx is an acknowledgement. 4xx refuses the event, apart from 408, 425 and 429; these,
 * 5xx and 3xx say that the receiver is not ready. The receiver dedupes by `ce-id`.
 */
import { DeadLetter } from '../../../job/errors/errors.js';
import { invalid, shown } from '../../../job/errors/holdfast-error.js';
import { checkChoice, checkKnown, type Known } from '../../../job/options/known-options.js';
import { asciiOf, type Message } from '../message.js';
import { type PublishOptions, type Sink, Unavailable } from '../sink.js';

/**
 * Options of `httpSink()`.
 * @example httpSink({ url: 'https://events.example/in', source: '/shop', mode: 'structured' });
 */
export interface HttpSinkOptions {
  /** Where events go: one address, or one for each event. Faults of one address hold no keys of another. */
  readonly url: string | ((message: Message) => string);
  /** The `source` of the events, a URI reference. Default `/holdfast/<queue>`. */
  readonly source?: string;
  /** Facts in headers and data in the body (`binary`), or all in a JSON body (`structured`). Default `binary`. */
  readonly mode?: 'binary' | 'structured';
  /** More headers, such as `authorization`; a function is called for each request. Default: none. */
  readonly headers?:
    | Readonly<Record<string, string>>
    | ((message: Message) => Readonly<Record<string, string>>);
  /** Sends the requests, such as one with a proxy or a pool of its own. Default: the `fetch` of Node. */
  readonly fetch?: typeof fetch;
}

const OPTIONS = {
  ...{ url: true, source: true, mode: true, headers: true, fetch: true },
} as const satisfies Known<HttpSinkOptions>;

/** Such statuses say "not now". */
const NOT_NOW = new Set([408, 425, 429]);

/**
 * A sink that sends events over HTTP as CloudEvents.
 * @example relay(worker, events, httpSink({ url: 'https://events.example/in' }));
 */
export function httpSink(options: HttpSinkOptions): Sink {
  checkKnown(options, OPTIONS, 'httpSink()', 'No sink was made.');
  const { url, source, mode = 'binary', headers = {} } = options;
  if (typeof url !== 'function') checkUrl(url);
  checkChoice(mode, ['binary', 'structured'], 'mode', 'No sink was made.');
  const send = options.fetch ?? fetch;
  const urlOf = (message: Message) => (typeof url === 'function' ? url(message) : url);
  const sourceOf = (message: Message) => source ?? `/holdfast/${message.queue}`;
  return {
    name: 'http',
    ...(typeof url === 'function' && { target: (message: Message) => checkUrl(url(message)) }),
    async publish(message: Message, { signal }: PublishOptions) {
      const own = typeof headers === 'function' ? headers(message) : headers;
      const event = mode === 'binary' ? binary : structured;
      const { body, headers: facts } = event(message, sourceOf(message));
      const request = { method: 'POST', body, headers: { ...facts, ...own }, signal };
      const response = await send(urlOf(message), { ...request, redirect: 'manual' });
      // Unread bodies keep connections from being used again.
      await response.body?.cancel();
      judge(response);
    },
  };
}

function checkUrl(url: unknown): string {
  const parsed =
    typeof url === 'string' && /^https?:\/\//.test(url) && URL.canParse(url) ? new URL(url) : null;
  // fetch() would refuse it at each event, and quote it in its error. Here it is not quoted.
  if (parsed?.username || parsed?.password)
    throw invalid('url of httpSink() holds a user or a password; send them in a header.');
  if (parsed) return url as string;
  throw invalid(`url of httpSink() must begin with http:// or https://, not ${shown(url)}.`);
}

function judge({ status, ok, headers }: Response): void {
  if (ok) return;
  if (status >= 400 && status < 500 && !NOT_NOW.has(status))
    throw new DeadLetter(`the receiver refused the event with ${status}`);
  const retryAfter = retryAfterMs(headers.get('retry-after'));
  throw new Unavailable(`the receiver answered ${status}`, {
    scope: 'target',
    ...(retryAfter !== null && { retryAfter }),
  });
}

/** Seconds, or a date. */
function retryAfterMs(text: string | null): number | null {
  if (text === null) return null;
  const ms = /^\d{1,9}$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - Date.now();
  return Number.isNaN(ms) ? null : Math.max(0, Math.round(ms));
}

const TRACE = ['traceparent', 'tracestate'];

/** Names of extensions are lower-case letters and digits. */
function extensionsOf({ key, version, fence, replayed, headers }: Message) {
  return {
    partitionkey: key,
    dataversion: String(version),
    fence: String(fence),
    ...(replayed && { replayed: '1' }),
    ...Object.fromEntries(TRACE.flatMap((name) => (headers[name] ? [[name, headers[name]]] : []))),
  };
}

function attributesOf(message: Message, source: string): Record<string, string> {
  return {
    specversion: '1.0',
    id: message.id,
    source,
    type: message.type,
    time: message.occurredAt.toISOString(),
    ...extensionsOf(message),
  };
}

function binary(message: Message, source: string) {
  const attributes = Object.entries(attributesOf(message, source));
  const facts = attributes.map(([name, value]) => [`ce-${name}`, asciiOf(value)]);
  const trace = TRACE.flatMap((name) =>
    message.headers[name] ? [[name, message.headers[name]]] : [],
  );
  const own = Object.entries(message.headers).map(([name, value]) => [name, asciiOf(value)]);
  const headers = { 'content-type': 'application/json', ...fromEntries(own.concat(trace, facts)) };
  return { body: JSON.stringify(message.data ?? null), headers };
}

function structured(message: Message, source: string) {
  const own = Object.entries(message.headers).map(([name, value]) => [name, asciiOf(value)]);
  const body = { ...attributesOf(message, source), datacontenttype: 'application/json' };
  return {
    body: JSON.stringify({ ...body, data: message.data ?? null }),
    headers: { ...fromEntries(own), 'content-type': 'application/cloudevents+json' },
  };
}

const fromEntries = (entries: readonly (readonly (string | undefined)[])[]) =>
  Object.fromEntries(entries) as Record<string, string>;
