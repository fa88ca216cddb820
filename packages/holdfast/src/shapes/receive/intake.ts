/**
 * The way of a webhook from its request to its commit: read, verified, keyed, written once. Everything that goes wrong on it
 * is thrown, and becomes an answer in one place.
 */
import type { Holdfast } from '../../api/holdfast.js';
import type { Enqueued } from '../../enqueue/enqueue.js';
import type { HoldfastParts } from '../../holdfast.js';
import type { JobDefinition } from '../../job/job.js';
import type { EnqueueOptions } from '../../job/options/enqueue-options.js';
import { BEGIN_BOUNDED } from '../../postgres/connect/bounded.js';
import { withTransaction } from '../../postgres/connect/pool.js';
import { isTransient } from '../../postgres/connect/transient.js';
import {
  type Answer,
  Answers,
  accepted,
  ProgramFailed,
  Unverified,
  wrongMethod,
} from './answers.js';
import { type Bounds, Gone } from './bodies.js';
import { type Delivery, deliveryOf, Refused, type Verified } from './delivery.js';
import { busy, GroupCommit } from './group-commit.js';
import type { Received, ReceiveOptions, Settings } from './options.js';

/** What a receiver has answered since the program started. */
export interface ReceiverStats {
  /** Events that became a job. */
  readonly accepted: number;
  /** Events that had been accepted before, and were answered with 2xx again. */
  readonly repeated: number;
  /** Of those: with another body. The first one counts. */
  readonly conflicts: number;
  /** Requests that were answered with 4xx. */
  readonly refused: number;
  /** Requests that were answered with 5xx, to come again. */
  readonly unavailable: number;
}

/** A request in either form. */
export interface Arrival {
  readonly method: string | undefined;
  readonly url: string;
  readonly headers: Delivery['headers'];
  read(bounds: Bounds): Promise<Buffer>;
}

const MOST_ID_BYTES = 255;

export interface Intake<Body> {
  readonly hf: Holdfast;
  readonly parts: HoldfastParts;
  readonly job: JobDefinition<Received<Body>, unknown>;
  readonly options: ReceiveOptions<Body>;
  readonly settings: Settings;
}

/** Answers requests, and counts what it answered. */
export function intake<Body>(given: Intake<Body>) {
  const { parts, job, options, settings } = given;
  const commit = committer(given);
  const answers = new Answers(parts.log, job.type);
  const stats = { accepted: 0, repeated: 0, conflicts: 0, refused: 0, unavailable: 0 };

  async function take(arrival: Arrival): Promise<Answer> {
    if (arrival.method !== 'POST') return wrongMethod;
    const deadline = performance.now() + settings.timeoutMs;
    checkEncoding(arrival.headers.get('content-encoding'));
    const receivedAt = new Date();
    const body = await arrival.read({ maxBytes: settings.maxBytes, deadline });
    const { url, headers } = arrival;
    return inTime(accept(deliveryOf({ body, headers, url, receivedAt }), deadline), deadline);
  }

  async function accept(delivery: Delivery, deadline: number): Promise<Answer> {
    const verified = await verify(options.verify, delivery);
    if ('answer' in verified) return accepted(String(verified.answer));
    const content = settings.as === 'text' ? delivery.text() : bodyOf(verified, delivery);
    const { id, type = null } = verified;
    const event = { id, type, body: content as Body };
    const kept = keptHeaders(settings.headers, delivery.headers);
    const idempotencyKey = keyOf(job.type, verified);
    const bytes = delivery.body.length;
    const enqueued = await commit(event, { ...kept, idempotencyKey }, bytes, deadline);
    if (enqueued.deduplicated) stats.repeated++;
    else stats.accepted++;
    if (enqueued.mismatch && !verified.bodyChanges) {
      stats.conflicts++;
      parts.log.warn(
        { type: job.type, job: enqueued.id },
        'a webhook came again with another body; the first one counts',
      );
    }
    return accepted();
  }

  /** Null: nobody is there to be answered. */
  async function answer(arrival: Arrival): Promise<Answer | null> {
    let made: Answer;
    try {
      made = await take(arrival);
    } catch (error) {
      if (error instanceof Gone) return null;
      made = answers.of(error);
    }
    if (made.status >= 500) stats.unavailable++;
    else if (made.status >= 400) stats.refused++;
    return made;
  }

  return { stats, answer };
}

/** Writes an event, once. Without `within`, events that arrive together share a commit. */
function committer<Body>({ hf, parts: { pool }, job, options: { within, enqueue } }: Intake<Body>) {
  const onMismatch = 'existing';
  const together = new GroupCommit((items) => hf.enqueueMany(items, { onMismatch }));
  return async (
    event: Received<Body>,
    own: Pick<EnqueueOptions, 'headers' | 'idempotencyKey'>,
    bytes: number,
    deadline: number,
  ): Promise<Enqueued> => {
    const chosen = enqueue ? await ofProgram('enqueue', () => enqueue(event)) : {};
    const headers = { ...own.headers, ...chosen.headers };
    // The id of the event is the key, whatever the definition says.
    const options = { ...chosen, ...own, headers, unique: false } as EnqueueOptions;
    if (Object.keys(headers).length === 0) delete (options as { headers?: unknown }).headers;
    const item = job.item(event, options);
    if (!within) return together.add(item, bytes, deadline);
    return withTransaction(
      pool(),
      async (client) => {
        const [written] = await hf.enqueueMany([item], { onMismatch, tx: client });
        if (!written?.deduplicated) await ofProgram('within', () => within(client, event));
        return written as Enqueued;
      },
      BEGIN_BOUNDED,
    );
  };
}

/** What a function of the program throws is its own, and no fault of the event. */
async function ofProgram<Value>(name: string, work: () => Value | Promise<Value>): Promise<Value> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Refused) throw error;
    throw new ProgramFailed(`${name} of receive() threw`, { cause: error });
  }
}

async function verify(by: ReceiveOptions['verify'], delivery: Delivery) {
  let verified: Awaited<ReturnType<typeof by>>;
  try {
    verified = await by(delivery);
  } catch (error) {
    // What it asks, such as a table of secrets, may be away.
    if (error instanceof Refused || isTransient(error)) throw error;
    const { cause } = (error ?? {}) as { cause?: unknown };
    throw isTransient(cause) ? cause : new Unverified(error);
  }
  if (!verified) throw new Unverified(null);
  return verified;
}

const bodyOf = ({ body }: Verified, delivery: Delivery) =>
  body === undefined ? delivery.json() : body;

/** A custom verifier may take them from JSON, which can hold what UTF-8 cannot. */
const isWhole = (text: string) => !/\p{Cs}/u.test(text);

/** No part can be written so that it looks like two. */
function keyOf(type: string, { id, source = '' }: Verified): string {
  const bytes = typeof id === 'string' ? Buffer.byteLength(id) : 0;
  if (bytes < 1 || bytes > MOST_ID_BYTES)
    throw new Refused(`the id of the event must have 1 to ${MOST_ID_BYTES} bytes`, 400);
  if (!isWhole(id) || !isWhole(String(source)))
    throw new Refused('the id of the event, or its source, holds half of a surrogate pair', 400);
  return `webhook:${[type, source].map(encodeURIComponent).join(':')}:${id}`;
}

function keptHeaders(names: readonly string[], headers: Delivery['headers']) {
  const kept: Record<string, string> = {};
  for (const name of names) {
    const value = headers.get(name);
    if (value !== null && value.length > 1024)
      throw new Refused(`the header ${name} is longer than 1024 characters`, 400);
    if (value !== null) kept[name] = value;
  }
  return { headers: kept };
}

function checkEncoding(encoding: string | null): void {
  if (encoding !== null && encoding !== '' && encoding.toLowerCase() !== 'identity')
    throw new Refused('send the body without a content-encoding', 415);
}

/** The commit may still come: then the next delivery finds the job. */
async function inTime<Value>(work: Promise<Value>, deadline: number): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const reason = 'the event was not written in time; send it again';
    timer = setTimeout(() => reject(busy(reason)), deadline - performance.now());
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
