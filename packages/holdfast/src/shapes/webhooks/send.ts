/**
 * Sending: a message becomes one delivery for each endpoint that wants it, in the caller's transaction. A message that was
 * sent before under its id is not sent again.
 */
import { together } from '../../api/act/acts.js';
import { checkTx } from '../../enqueue/transaction.js';
import { invalid, shown } from '../../job/errors/holdfast-error.js';
import type { EnqueueItem } from '../../job/job.js';
import { checkKey } from '../../job/key.js';
import { checkKnown, type Known } from '../../job/options/known-options.js';
import { uuidv7 } from '../../job/uuid.js';
import { executor, type Queryable, type Transaction } from '../../postgres/queryable.js';
import { type Deps, MESSAGE_ID } from './deps.js';
import { checkEndpointId, checkOwner, checkType, type EndpointOwner } from './endpoint-options.js';
import { unknownEndpoint } from './endpoints.js';
import { show, wanting } from './rows/endpoints.js';

/**
 * An event to send.
 * @example await hooks.send({ tenant: 'acme', type: 'order.paid', data: { orderId: 9182 } }, { tx: client });
 */
export interface WebhookMessage {
  /** Whose endpoints get it. */
  readonly tenant: string;
  /** What has happened, such as `order.paid`. */
  readonly type: string;
  /** What the receivers are told, as JSON. */
  readonly data: unknown;
  /** The header `webhook-id`, by which receivers know a repetition: letters, digits, `_` and `-`. Sent twice with the same id, it is delivered once. Default: a new one. */
  readonly id?: string;
}

/** What `hooks.send()` and `hooks.test()` take beside. */
export interface SendCall {
  /** Your transaction: the webhooks go out when it commits. Default: one of its own. */
  readonly tx?: Transaction;
}

/** What was sent. */
export interface SentMessage {
  /** The id of the message. */
  readonly id: string;
  /** A delivery for each endpoint that wants it. */
  readonly deliveries: readonly {
    /** The id of the delivery, which is a job. */
    readonly id: string;
    /** The id of the endpoint. */
    readonly endpoint: string;
    /** It was sent to this endpoint before. */
    readonly deduplicated: boolean;
  }[];
}

/** What `hooks.test()` takes beside. */
export interface TestCall extends SendCall, EndpointOwner {
  /** What the receiver is told. Default: `{ test: true }`. */
  readonly data?: unknown;
}

/** A test that was sent. */
export interface SentTest {
  /** The id of the message. */
  readonly message: string;
  /** The id of the delivery, which is a job. */
  readonly delivery: string;
}

/** Sending messages, and tests. */
export interface Sending {
  /**
   * Sends an event to the endpoints of a tenant that want it. With `tx` it commits with your transaction.
   * @example await hooks.send({ tenant: 'acme', type: 'order.paid', data: { orderId: 9182 } }, { tx: client });
   */
  send(message: WebhookMessage, call?: SendCall): Promise<SentMessage>;
  /**
   * Sends a test to one endpoint, once, also if it is disabled. `hf.wait()` or the log of deliveries says what came of it.
   * @example const { delivery } = await hooks.test(acme.id);
   */
  test(endpoint: string, call?: TestCall): Promise<SentTest>;
}

const MESSAGE = {
  ...{ tenant: true, type: true, data: true, id: true },
} as const satisfies Known<WebhookMessage>;
const CALL = { tx: true } as const satisfies Known<SendCall>;
const UNDONE = 'Nothing was sent.';

const newMessageId = () => `msg_${uuidv7().replaceAll('-', '')}`;

function checkMessage(message: WebhookMessage) {
  checkKnown(message, MESSAGE, 'send()', UNDONE);
  const { tenant, type, data, id } = message ?? {};
  if (data === undefined) throw invalid(`data is undefined, which JSON cannot hold. ${UNDONE}`);
  if (id !== undefined && !(typeof id === 'string' && MESSAGE_ID.test(id)))
    throw invalid(`id must be 1 to 200 letters, digits, "_" and "-", not ${shown(id)}. ${UNDONE}`);
  return {
    tenant: checkKey(tenant, 'tenant', 'nothing was sent; use a short text such as "acme"'),
    type: checkType(type, UNDONE),
    data,
    id,
  };
}

/** In the caller's transaction, or in one of its own. */
function inTransaction<Value>(
  { pool }: Deps,
  call: SendCall,
  work: (tx: Transaction) => Promise<Value>,
): Promise<Value> {
  // Also with a transaction: a Holdfast that is closed does nothing.
  const own = pool();
  return call.tx ? work(call.tx) : together(own, (_db, client) => work(client as Queryable));
}

export function sending(deps: Deps): Sending {
  const { hf, names, deliver, deliverInOrder } = deps;

  return {
    async send(message: WebhookMessage, call: SendCall = {}): Promise<SentMessage> {
      checkKnown(call, CALL, 'send()', UNDONE);
      if ('tx' in call) checkTx(call.tx);
      const { tenant, type, data, id: given } = checkMessage(message);
      const id = given ?? newMessageId();
      return inTransaction(deps, call, async (tx) => {
        const found = await wanting(executor(tx), names, tenant, type);
        const items = found.map(({ id: endpoint, ordered }): EnqueueItem => {
          const payload = { endpoint, message: id, type, data };
          const once = given === undefined ? {} : { idempotencyKey: `${endpoint}:${id}` };
          const job = ordered ? deliverInOrder : deliver;
          return job.item(payload, { ...once, partitionKey: endpoint });
        });
        const written = new Map<EnqueueItem, { id: string; deduplicated: boolean }>();
        for (const job of [deliver, deliverInOrder]) {
          const some = items.filter((item) => item.job === (job as never));
          if (some.length === 0) continue;
          const results = await hf.enqueueMany(some, { tx });
          for (const [n, item] of some.entries()) written.set(item, results[n] as never);
        }
        const deliveries = items.map((item, n) => ({
          endpoint: found[n]?.id as string,
          id: written.get(item)?.id as string,
          deduplicated: written.get(item)?.deduplicated === true,
        }));
        return { id, deliveries };
      });
    },

    async test(endpoint: string, call: TestCall = {}): Promise<SentTest> {
      checkKnown(call, { ...CALL, tenant: true, data: true }, 'test()', UNDONE);
      checkOwner(call);
      checkEndpointId(endpoint);
      if ('tx' in call) checkTx(call.tx);
      const { data = { test: true }, tenant } = call;
      return inTransaction(deps, call, async (tx) => {
        if (!(await show(executor(tx), names, endpoint, tenant))) throw unknownEndpoint(endpoint);
        const message = newMessageId();
        const payload = { endpoint, message, type: 'webhook.test', data, test: true } as const;
        const { id } = await hf.enqueue(deliver, payload, { maxAttempts: 1, tx });
        return { message, delivery: id };
      });
    },
  };
}
