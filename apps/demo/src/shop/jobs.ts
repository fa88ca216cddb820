/**
 * What the shop has to do for an order, as jobs in order per key, and how each of them goes: most
 * work at once, some fail and are retried, a few can never succeed and become dead letters. Which ones is
 * fixed by the number of the order, so that every run shows all of it.
 */

import type { HandlerContext } from 'holdfast';
import { DeadLetter, type EnqueueItem, type JobDefinition, job } from 'holdfast';
import type pg from 'pg';

export interface Step {
  readonly orderId: number;
  /** 1 for the first job of the order. */
  readonly step: number;
}

/** Read by key: the jobs of an order run one after the other. */
export const QUEUE = 'orders';

const ordered = {
  queue: QUEUE,
  maxAttempts: 4,
  retry: { base: '250ms', cap: '2s' },
} as const;

export interface Duty {
  readonly job: JobDefinition<Step, Step>;
  /** What is done to the world when it succeeds. */
  readonly effect: string;
  /** Throws when this attempt fails. */
  readonly attempt: (step: Step, attempt: number) => void;
}

export const receipt: Duty = {
  job: job<Step>('send_receipt', ordered),
  effect: 'receipt sent',
  attempt({ orderId }, attempt) {
    if (orderId % 97 === 0) throw new Error('the address is unknown');
    if (orderId % 7 === 0 && attempt < 3) throw new Error('the mail server is busy');
  },
};

export const shipment: Duty = {
  job: job<Step>('ship_parcel', ordered),
  effect: 'parcel handed over',
  attempt({ orderId, step }, attempt) {
    const first = step === 2;
    if (first && orderId % 11 === 0 && attempt < 2) throw new Error('the carrier does not answer');
  },
};

export const refund: Duty = {
  job: job<Step>('refund_order', ordered),
  effect: 'money returned',
  attempt({ orderId }) {
    if (orderId % 40 === 0) throw new DeadLetter('the card has expired');
  },
};

/** It kills the process that runs it, whenever it starts. The fleet finds out and runs it alone, once. */
export const poison: Duty = {
  job: job<Step>('poison', { ...ordered, maxAttempts: 1 }),
  effect: 'never happens',
  attempt() {
    process.kill(process.pid, 'SIGKILL');
  },
};

export const DUTIES: readonly Duty[] = [receipt, shipment, refund];

/** What stands in the shop when a duty is done. */
export interface Done extends Step {
  readonly jobId: string;
  readonly effect: string;
  readonly attempt: number;
}

export interface DutyDeps {
  /** For calling a mail server, a carrier or a bank. */
  readonly call: (signal: AbortSignal) => Promise<unknown>;
  readonly record: (tx: pg.PoolClient, done: Done) => Promise<void>;
}

/** The handler of a duty: the call, and then its effect in the transaction that completes the job. */
export function handlerOf({ effect, attempt: tryIt }: Duty, { call, record }: DutyDeps) {
  return async (ctx: HandlerContext<Step>): Promise<void> => {
    const { id: jobId, payload, attempt, signal, transaction } = ctx;
    await call(signal);
    tryIt(payload, attempt);
    await transaction((tx) => record(tx, { ...payload, jobId, effect, attempt }));
  };
}

export interface OrderOptions {
  /** Default 1. */
  readonly parcels?: number;
  /** The partition key of its jobs. Default its own. */
  readonly key?: () => string;
  /** With a job between the receipt and the parcels that kills its worker. */
  readonly poisoned?: boolean;
}

/** The jobs of one order: a receipt, its parcels, and for every fifth order a refund. */
export function jobsOf(orderId: number, options: OrderOptions = {}): EnqueueItem[] {
  const { parcels = 1, poisoned = false } = options;
  const partitionKey = options.key?.() ?? `order:${orderId}`;
  const duties = [receipt, ...Array.from({ length: parcels }, () => shipment)];
  if (poisoned) duties.splice(1, 0, poison);
  if (orderId % 5 === 0) duties.push(refund);
  return duties.map((duty, n) => duty.job.item({ orderId, step: n + 1 }, { partitionKey }));
}
