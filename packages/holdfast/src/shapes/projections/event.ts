/** Events: what a program appends, and what a projection gets. */
import { invalid, shown } from '../../job/errors/holdfast-error.js';
import { encodeHeaders } from '../../job/headers.js';
import { checkId } from '../../job/id.js';
import { checkInteger } from '../../job/job.js';
import { bucketOf, checkKey, checkType } from '../../job/key.js';
import { checkKnown, type Known } from '../../job/options/known-options.js';
import { encodePayload } from '../../job/payload.js';
import { uuidv7 } from '../../job/uuid.js';
import type { Transaction } from '../../postgres/queryable.js';

/**
 * An event to append.
 * @example const paid: NewEvent = { type: 'order.paid', key: 'order:9182', data: { cents: 1250 } };
 */
export interface NewEvent<Data = unknown, Type extends string = string> {
  /** What happened, such as `order.paid`: a letter, then up to 99 letters, digits and `_ . : -`. */
  readonly type: Type;
  /** What it happened to: events of a key are applied in order. 1 to 512 bytes. */
  readonly key: string;
  /** Plain data that JSON can hold. */
  readonly data: Data;
  /** Of the shape of the data. Default 1. */
  readonly version?: number;
  /** A UUID. Default: a new one. */
  readonly id?: string;
  /** Default: now, by the clock of the database. */
  readonly occurredAt?: Date;
  /** A flat object of texts, such as a trace id. Default: none. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** An event of the log, as a projection gets it. */
export interface LoggedEvent<Data = unknown, Type extends string = string> {
  /** Where it stands in the log. Rises; there are gaps. */
  readonly position: number;
  /** Its UUID. */
  readonly id: string;
  /** What happened. */
  readonly type: Type;
  /** What it happened to. */
  readonly key: string;
  /** Of the shape of the data. */
  readonly version: number;
  /** What was appended. */
  readonly data: Data;
  /** What was appended with it. */
  readonly headers: Readonly<Record<string, string>>;
  /** When it happened. */
  readonly occurredAt: Date;
}

/** The events of a log, from a map of their types to their data: those that are appended. */
export type NewEventOf<Events> = {
  [Type in keyof Events & string]: NewEvent<Events[Type], Type>;
}[keyof Events & string];

/** The same as a projection gets them. Data of which nothing is known is what the projection says. */
export type LoggedEventOf<Events, Type extends keyof Events & string = keyof Events & string> = {
  [One in Type]: LoggedEvent<unknown extends Events[One] ? never : Events[One], One>;
}[Type];

/** How an event log is written to. `outbox()` takes one as `log`, and appends what it publishes. */
export interface AppendsEvents {
  /** Appends events in your transaction; returns their ids. */
  append(
    events: readonly NewEvent[],
    options?: {
      /** Your transaction. Default: one of its own. */
      readonly tx?: Transaction;
    },
  ): Promise<string[]>;
}

const EVENT = {
  ...{ type: true, key: true, data: true, version: true, id: true, occurredAt: true },
  headers: true,
} as const satisfies Known<NewEvent>;

const UNDONE = 'Nothing was appended.';
const MAX_EVENTS = 50_000;

/** The events as one JSON text for the statement, and their ids. */
export function encodeEvents(
  given: readonly unknown[],
  maxBytes: number,
): { ids: string[]; text: string } {
  const events = given as readonly NewEvent[];
  if (!Array.isArray(events) || events.length > MAX_EVENTS)
    throw invalid(`append() takes an array of up to ${MAX_EVENTS} events. ${UNDONE}`);
  const ids: string[] = [];
  const texts = events.map((event, index) => {
    const what = `events[${index}]`;
    checkKnown(event, EVENT, what, UNDONE);
    const id = event.id === undefined ? uuidv7() : checkId(event.id);
    ids.push(id);
    const key = checkKey(
      event.key,
      `${what}.key`,
      'nothing was appended; use a short text such as "order:9182"',
    );
    const type = checkType(
      event.type,
      `${what}.type`,
      'nothing was appended; use a name such as "order.paid"',
    );
    const { occurredAt } = event;
    if (occurredAt !== undefined && Number.isNaN(occurredAt?.getTime?.() ?? Number.NaN))
      throw invalid(`${what}.occurredAt is ${shown(occurredAt)}, and no valid Date. ${UNDONE}`);
    const facts = JSON.stringify({
      ...{ id, key, bucket: bucketOf(key), type },
      version: checkInteger(event.version ?? 1, `${what}.version`, 1, 2 ** 31 - 1),
      ...(occurredAt && { occurred_at: occurredAt.toISOString() }),
    });
    const consequence = 'nothing was appended';
    const data = encodePayload(event.data, { maxBytes, what: `${what}.data`, consequence });
    const headers = encodeHeaders(event.headers);
    return `${facts.slice(0, -1)},"data":${data}${headers ? `,"headers":${headers}` : ''}}`;
  });
  return { ids, text: `[${texts.join(',')}]` };
}
