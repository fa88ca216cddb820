/** What an endpoint is made of, checked. Values of headers and secrets are never quoted in an error. */
import { validateHeaderName, validateHeaderValue } from 'node:http';
import { invalid, shown } from '../../job/errors/holdfast-error.js';
import { checkId } from '../../job/id.js';
import { checkInteger } from '../../job/job.js';
import { checkKey } from '../../job/key.js';
import { checkLimit, type RateOptions } from '../../job/limit.js';
import {
  checkFlag,
  checkKnown,
  isPlainObject,
  type Known,
} from '../../job/options/known-options.js';
import type { Guard } from './guard/guard.js';
import type { NewEndpoint } from './rows/endpoints.js';

/** What of an endpoint can be changed. */
export interface EndpointChanges {
  /** Where its webhooks go: `https:`, and with `allowHttp` also `http:`. Another origin gets the headers only if they are given too. Default: as it is. */
  readonly url?: string;
  /** Which events it wants: `order.paid`, `order.*` or `*`. Default of a new one: `*`. */
  readonly events?: readonly string[];
  /** Headers of each request, such as `Authorization`. They replace those of before; only their names are ever shown. Default of a new one: none. */
  readonly headers?: Readonly<Record<string, string>>;
  /** At most so many requests to it at once, 1 to 100. Default 5; 1 if it is ordered. */
  readonly concurrency?: number;
  /** At most so many requests to it in a time; null: any number. Default null. */
  readonly rate?: RateOptions | null;
}

/**
 * A new endpoint.
 * @example await hooks.endpoints.create({ tenant: 'acme', url: 'https://acme.example/hooks', events: ['order.*'] }, { tx: client });
 */
export interface EndpointOptions extends EndpointChanges {
  /** Whose it is: it gets what is sent for this tenant. */
  readonly tenant: string;
  /** Where its webhooks go: `https:`, and with `allowHttp` also `http:`. */
  readonly url: string;
  /** One at a time, in the order in which they were sent: one that fails holds those after it. Default false. */
  readonly ordered?: boolean;
  /** Its signing secret, if it has one already: `whsec_` and 24 to 64 bytes in base64. Default: a new one. */
  readonly secret?: string;
}

/** Whose an endpoint must be. */
export interface EndpointOwner {
  /** An endpoint of another tenant counts as unknown. Pass it wherever a customer names an endpoint. Default: any tenant. */
  readonly tenant?: string;
}

export const checkEndpointId = (id: unknown): string =>
  checkId(id, 'an endpoint', 'endpoints.create()');

/** Undefined is refused too: a tenant that somebody forgot must not mean all of them. */
export function checkOwner(call: EndpointOwner): void {
  if ('tenant' in call) checkKey(call.tenant, 'tenant', 'nothing was done');
}

/** Requests to an endpoint at once. */
export const DEFAULT_CONCURRENCY = 5;

const CHANGES = {
  ...{ url: true, events: true, headers: true, concurrency: true, rate: true },
} as const satisfies Known<EndpointChanges>;
const OPTIONS = {
  ...{ ...CHANGES, tenant: true, ordered: true, secret: true },
} as const satisfies Known<EndpointOptions>;

const TYPE = /^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/;
const PATTERN = /^(\*|[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*(\.\*)?)$/;
const MAX_TYPE = 128;
const MAX_EVENTS = 100;
const MAX_HEADERS = 32;
const MAX_HEADER = 4_096;
/** Ours, those that frame a request, and those that mean the connection or a proxy. */
const RESERVED = new Set([
  ...['host', 'connection', 'content-length', 'content-type', 'transfer-encoding', 'upgrade', 'te'],
  ...['expect', 'trailer', 'keep-alive', 'user-agent', 'proxy-connection', 'proxy-authorization'],
]);

export function checkType(type: unknown, undone: string): string {
  if (typeof type === 'string' && type.length <= MAX_TYPE && TYPE.test(type)) return type;
  throw invalid(
    `type must be words of letters, digits, "_" and "-" between dots, such as "order.paid", not ${shown(type)}. ${undone}`,
  );
}

function checkEvents(events: unknown, undone: string): readonly string[] {
  const fits = (one: unknown) =>
    typeof one === 'string' && one.length <= MAX_TYPE && PATTERN.test(one);
  if (Array.isArray(events) && events.length > 0 && events.length <= MAX_EVENTS) {
    const wrong = events.find((one) => !fits(one));
    if (wrong === undefined) return [...new Set(events as string[])];
    throw invalid(`events holds ${shown(wrong)}; write "order.paid", "order.*" or "*". ${undone}`);
  }
  throw invalid(
    `events must be a list of 1 to ${MAX_EVENTS} patterns, not ${shown(events)}. ${undone}`,
  );
}

/** Names in lower case. */
function checkHeaders(headers: unknown, undone: string): Readonly<Record<string, string>> {
  if (!isPlainObject(headers)) throw invalid(`headers must be an object of texts. ${undone}`);
  const pairs = Object.entries(headers);
  if (pairs.length > MAX_HEADERS)
    throw invalid(
      `headers has ${pairs.length} entries, more than the ${MAX_HEADERS} allowed. ${undone}`,
    );
  return Object.fromEntries(
    pairs.map(([given, value]) => {
      const name = given.toLowerCase();
      const wrong = (why: string) => invalid(`The header ${shown(given)} ${why}. ${undone}`);
      if (RESERVED.has(name) || name.startsWith('webhook-'))
        throw wrong('is set by Holdfast or by the connection');
      if (typeof value !== 'string' || value.length > MAX_HEADER)
        throw wrong(`must be a text of at most ${MAX_HEADER} characters`);
      try {
        validateHeaderName(name);
        validateHeaderValue(name, value);
      } catch {
        throw wrong('cannot be sent: its name or value has a character that headers may not have');
      }
      return [name, value];
    }),
  );
}

function rateOf(rate: RateOptions | null, undone: string) {
  const known = rate === null ? null : checkLimit({ rate }, 'The endpoint', undone).rate;
  return {
    ...{ rate_limit: known?.limit ?? null, rate_ms: known?.perMs ?? null },
    rate_burst: known?.burst ?? null,
  };
}

export interface CheckedChanges {
  readonly changes: Partial<NewEndpoint>;
  /** As JSON; null: not given. */
  readonly headers: string | null;
}

function changesOf(given: EndpointChanges, guard: Guard, undone: string): CheckedChanges {
  const { url, events, concurrency, rate } = given;
  const headers = given.headers === undefined ? null : checkHeaders(given.headers, undone);
  const changes: Partial<NewEndpoint> = {
    ...(url !== undefined && { url: guard.check(url, 'The URL', undone).href }),
    ...(events !== undefined && { events: checkEvents(events, undone) }),
    ...(headers !== null && { header_names: Object.keys(headers) }),
    ...(concurrency !== undefined && {
      concurrency: checkInteger(concurrency, 'concurrency', 1, 100),
    }),
    ...(rate !== undefined && rateOf(rate, undone)),
  };
  return { changes, headers: headers && JSON.stringify(headers) };
}

export function checkChanges(given: EndpointChanges, guard: Guard): CheckedChanges {
  const undone = 'Nothing was changed.';
  checkKnown(given, CHANGES, 'endpoints.update()', undone);
  return changesOf(given, guard, undone);
}

/** Headers may hold secrets of the origin for which they were given: another one does not get them. */
export function movedFrom(url: string, checked: CheckedChanges): CheckedChanges {
  const { changes, headers } = checked;
  const next = changes.url ?? url;
  if (headers !== null || new URL(next).origin === new URL(url).origin) return checked;
  return { changes: { ...changes, header_names: [] }, headers: '{}' };
}

export function checkEndpoint(
  given: EndpointOptions,
  guard: Guard,
): { readonly endpoint: Omit<NewEndpoint, 'id'>; readonly headers: string | null } {
  const undone = 'No endpoint was made.';
  checkKnown(given, OPTIONS, 'endpoints.create()', undone);
  const { tenant, ordered, url } = given ?? {};
  if (url === undefined) throw invalid(`An endpoint needs a url. ${undone}`);
  const isOrdered = checkFlag(ordered, 'ordered', undone) ?? false;
  const { changes, headers } = changesOf(given, guard, undone);
  if (isOrdered && (changes.concurrency ?? 1) !== 1)
    throw invalid(
      `An ordered endpoint has one request at a time: leave concurrency out. ${undone}`,
    );
  return {
    endpoint: {
      ...{ events: ['*'], header_names: [], concurrency: isOrdered ? 1 : DEFAULT_CONCURRENCY },
      ...{ rate_limit: null, rate_ms: null, rate_burst: null, url: '' },
      ...changes,
      tenant: checkKey(tenant, 'tenant', 'no endpoint was made; use a short text such as "acme"'),
      ordered: isOrdered,
    },
    headers,
  };
}
