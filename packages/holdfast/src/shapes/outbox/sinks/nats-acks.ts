/**
 * Messages to JetStream and their acknowledgements on a connection of NATS: each message has a place of its own under one
 * inbox, and what comes back there is JetStream's word. One subscription, one map, and one look for what was given up.
 * What is published in one turn of the event loop is written to the socket at once: a write for each message costs as much
 * as all the rest of it, here and in the server.
 */

/** What the sink calls of a connection of `@nats-io/transport-node`. */
export interface NatsConnectionLike {
  /** Sends one message. */
  publish(
    subject: string,
    payload: Uint8Array,
    // biome-ignore lint/suspicious/noExplicitAny: the headers of the client are a class of its own
    options: { reply: string; headers: any },
  ): void;
  /** Listens to a subject. */
  subscribe(
    subject: string,
    options: { callback: (error: Error | null, message: NatsAckLike) => void },
  ): unknown;
  /** Only a connection has it, by which it is told from `jetstream(connection)`. */
  flush(): Promise<void>;
}

/** What the sink reads of an acknowledgement. */
export interface NatsAckLike {
  /** To which place it came. */
  readonly subject: string;
  /** What JetStream says. */
  readonly data: Uint8Array;
  /** The status of the server, if it answers itself. */
  readonly headers?: { readonly code: number };
}

interface Open {
  readonly until: number;
  readonly resolve: (ack: { duplicate: boolean }) => void;
  readonly reject: (error: Error) => void;
}

interface Message extends Open {
  readonly subject: string;
  readonly payload: Uint8Array;
  readonly headers: unknown;
}

/** What JetStream answers. */
interface Ack {
  readonly stream?: string;
  readonly duplicate?: boolean;
  readonly error?: { readonly err_code?: number; readonly description?: string };
}

/** Of the server: nobody listens to this subject. */
const NO_RESPONDERS = 503;
const LOOK_MS = 1_000;
const decoder = new TextDecoder();

/** With the names and the codes that `jetstream.publish` has. */
function failure(name: string, message: string, code?: number): Error {
  return Object.assign(new Error(message), { name, ...(code !== undefined && { code }) });
}

export class Acks {
  readonly #connection: NatsConnectionLike;
  readonly #inbox: string;
  readonly #open = new Map<string, Open>();
  readonly #gathered: Message[] = [];
  #listening = false;
  #count = 0;
  #timer: NodeJS.Timeout | null = null;

  constructor(connection: NatsConnectionLike, inboxPrefix: string) {
    this.#connection = connection;
    this.#inbox = `${inboxPrefix}.${crypto.randomUUID().replaceAll('-', '')}.`;
  }

  publish(
    subject: string,
    payload: Uint8Array,
    headers: unknown,
    timeoutMs: number,
  ): Promise<{ duplicate: boolean }> {
    return new Promise((resolve, reject) => {
      const until = performance.now() + timeoutMs;
      if (this.#gathered.push({ subject, payload, headers, until, resolve, reject }) === 1)
        setImmediate(() => this.#send(this.#gathered.splice(0)));
    });
  }

  #send(messages: readonly Message[]): void {
    this.#timer ??= setInterval(() => this.#look(), LOOK_MS).unref();
    for (const message of messages) {
      const { subject, payload, headers } = message;
      const place = (this.#count++).toString(36);
      try {
        this.#listen();
        this.#connection.publish(subject, payload, { reply: this.#inbox + place, headers });
        this.#open.set(place, message);
      } catch (error) {
        message.reject(error as Error);
      }
    }
  }

  /** The client subscribes again by itself when it has a new connection. */
  #listen(): void {
    if (this.#listening) return;
    this.#connection.subscribe(`${this.#inbox}*`, {
      callback: (error, message) => (error ? this.#refused(error) : this.#answered(message)),
    });
    this.#listening = true;
  }

  /** The account may not listen there: no answer will come. */
  #refused(error: Error): void {
    this.#listening = false;
    for (const { reject } of this.#open.values()) reject(error);
    this.#open.clear();
  }

  #answered({ subject, data, headers }: NatsAckLike): void {
    const place = subject.slice(this.#inbox.length);
    const open = this.#open.get(place);
    if (!open) return;
    this.#open.delete(place);
    if (data.length === 0 && headers?.code === NO_RESPONDERS) {
      open.reject(failure('JetStreamNotEnabled', 'no stream takes the subject'));
      return;
    }
    try {
      const { stream, duplicate, error }: Ack = JSON.parse(decoder.decode(data));
      if (error) {
        const { description = 'JetStream refused the message', err_code: code } = error;
        open.reject(failure('JetStreamApiError', description, code));
      } else if (!stream) open.reject(failure('JetStreamError', 'the answer names no stream'));
      else open.resolve({ duplicate: duplicate === true });
    } catch (error) {
      open.reject(error as Error);
    }
  }

  /** The relay has given these up before. */
  #look(): void {
    const now = performance.now();
    for (const [place, { until, reject }] of this.#open) {
      if (until > now) continue;
      this.#open.delete(place);
      reject(failure('TimeoutError', 'no answer'));
    }
    if (this.#open.size > 0 || !this.#timer) return;
    clearInterval(this.#timer);
    this.#timer = null;
  }
}
