/**
 * A webhook as it arrived, what a verifier makes of it, and how it is turned away. Only the raw bytes count: a signature
 * is of them, and not of what a parser makes of them.
 */

/** A webhook as it arrived, before anybody believes it. */
export interface Delivery {
  /** The raw bytes of the body: a signature is of these. */
  readonly body: Buffer;
  /** The headers of the request, by name in any case. */
  readonly headers: {
    /** The value of a header, several joined by a comma; null: it was not sent. */
    get(name: string): string | null;
  };
  /** The address that was asked for: the whole one with fetch, path and query with node:http. */
  readonly url: string;
  /** When it arrived, by this machine's clock. Timestamps are judged by it. */
  readonly receivedAt: Date;
  /** The body as UTF-8, exactly. Anything else is answered with 400. */
  text(): string;
  /** The body as JSON; a form as an object of its fields, or as the JSON in its field `payload`. Else: 400. */
  json(): unknown;
}

/** An event that a verifier believes. */
export interface Verified {
  /** The provider's id of the event: the same one is accepted once. 1 to 255 bytes. */
  readonly id: string;
  /** Within what ids are unique, such as a tenant whose secret this is. Default: the provider's name, or none. */
  readonly source?: string;
  /** What kind of event it is. Default null. */
  readonly type?: string | null;
  /** What the job gets as its body. Default: the body as JSON. */
  readonly body?: unknown;
  /** The provider may send another body under the same id: then a difference is not reported. Default false. */
  readonly bodyChanges?: boolean;
}

/** A request that is answered at once and makes no job, such as a handshake. */
export interface Answered {
  /** The text that is answered with 200. */
  readonly answer: string;
}

/**
 * Says which event this is, or throws, or returns false: then the answer is 401. Throw `Refused` to choose status and reason.
 * @example
 * const verify: Verifier = ({ headers, body }) => {
 *   if (headers.get('x-token') !== 'secret') return false;
 *   return { id: headers.get('x-event-id') ?? '', body: JSON.parse(body.toString()) };
 * };
 */
export type Verifier = (
  delivery: Delivery,
) => Verified | Answered | false | Promise<Verified | Answered | false>;

/**
 * Throw it in a verifier to choose the answer. The sender reads the reason, so it holds no secret.
 * @example throw new Refused('this tenant is closed', 410);
 */
export class Refused extends Error {
  /** The status of the answer, 400 to 599. */
  readonly status: number;
  constructor(reason: string, status = 401) {
    super(reason);
    this.name = 'Refused';
    this.status = Number.isInteger(status) && status >= 400 && status <= 599 ? status : 401;
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const FORM = /^application\/x-www-form-urlencoded\b/i;

function textOf(body: Buffer): string {
  try {
    return utf8.decode(body);
  } catch {
    throw new Refused('the body is not UTF-8', 400);
  }
}

function jsonOf(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Refused(`${what} is not JSON`, 400);
  }
}

function contentOf(text: string, contentType: string | null): unknown {
  if (!FORM.test(contentType ?? '')) return jsonOf(text.replace(/^\uFEFF/, ''), 'the body');
  const fields = new URLSearchParams(text);
  const payload = fields.get('payload');
  if (payload !== null) return jsonOf(payload, 'the field "payload"');
  return Object.fromEntries(fields);
}

/** What `json()` and `text()` return is made once, when it is first asked for. */
export function deliveryOf(given: Omit<Delivery, 'text' | 'json'>): Delivery {
  let text: string | null = null;
  let content: { readonly value: unknown } | null = null;
  const delivery: Delivery = {
    ...given,
    text() {
      text ??= textOf(given.body);
      return text;
    },
    json() {
      content ??= { value: contentOf(delivery.text(), given.headers.get('content-type')) };
      return content.value;
    },
  };
  return delivery;
}
