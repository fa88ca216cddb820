/** What the parts of the shape share. */
import type pg from 'pg';
import type { Access } from '../../api/access.js';
import type { Holdfast } from '../../api/holdfast.js';
import { isId } from '../../job/id.js';
import { type JobDefinition, job } from '../../job/job.js';
import type { Logger } from '../../postgres/log/log.js';
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import type { Settings } from './options.js';

/** The payload of a delivery. Neither the URL nor a secret: they are read when it is sent. */
export interface Delivery {
  readonly endpoint: string;
  readonly message: string;
  readonly type: string;
  readonly data: unknown;
  /** Sent by hand, whatever the state of the endpoint, and once. */
  readonly test?: true;
}

export const MESSAGE_ID = /^[A-Za-z0-9_-]{1,200}$/;

/** Whoever may enqueue can write another payload: one that cannot be read must not fail those that are read with it. */
export function isDelivery(payload: unknown): payload is Delivery {
  const { endpoint, message, type, test } = (payload ?? {}) as Record<string, unknown>;
  return (
    isId(endpoint) &&
    typeof message === 'string' &&
    MESSAGE_ID.test(message) &&
    typeof type === 'string' &&
    (test === undefined || test === true)
  );
}

/** What came of a test. */
export interface TestResult {
  /** Whether the endpoint took it. */
  readonly delivered: boolean;
  /** The status of the answer; null: there was none. */
  readonly status: number | null;
  /** How long it took, in milliseconds. */
  readonly ms: number;
  /** Why it failed, apart from its status. */
  readonly error: string | null;
}

export type DeliveryJob = JobDefinition<Delivery, Delivery, TestResult | undefined>;

export interface Deps {
  readonly hf: Holdfast;
  readonly access: Access;
  readonly log: Logger;
  readonly settings: Settings;
  /** Of the endpoints, and of the deliveries that take turns. */
  readonly names: Names;
  /** Of the deliveries in order. */
  readonly orderedNames: Names;
  readonly deliver: DeliveryJob;
  readonly deliverInOrder: DeliveryJob;
  readonly pool: () => pg.Pool;
  /** Statements outside of any transaction, prepared where that is possible. */
  readonly outside: () => Promise<Executor>;
}

/** The retry schedule is the handler's; this is only how many attempts there are. */
export function deliveryJobs({ queue, ordered, delaysMs }: Settings) {
  const maxAttempts = delaysMs.length + 1;
  const deliver = (type: string, of: string) =>
    job<Delivery, TestResult | undefined>(type as never, { queue: of as never, maxAttempts });
  return {
    deliver: deliver('deliver_webhook', queue) as unknown as DeliveryJob,
    deliverInOrder: deliver('deliver_webhook_in_order', ordered) as unknown as DeliveryJob,
  };
}
