/** What programs are shown: times are dates, and no secret is in it. */
import type { Rate } from '../../job/limit.js';
import type { AttemptRow } from './rows/attempts.js';
import type { EndpointRow } from './rows/endpoints.js';

/** Whether webhooks go to an endpoint. */
export type EndpointState = 'active' | 'disabled';

/** An endpoint. */
export interface Endpoint {
  /** Its id. */
  readonly id: string;
  /** Whose it is. */
  readonly tenant: string;
  /** Where its webhooks go. */
  readonly url: string;
  /** Which events it wants. */
  readonly events: readonly string[];
  /** The names of the headers of its requests; their values are not shown. */
  readonly headers: readonly string[];
  /** One at a time, in the order in which they were sent. */
  readonly ordered: boolean;
  /** At most so many requests at once. */
  readonly concurrency: number;
  /** At most so many requests in a time; null: any number. */
  readonly rate: Rate | null;
  /** `disabled`: its deliveries are held. */
  readonly state: EndpointState;
  /** Why it was disabled, or enabled again. */
  readonly stateReason: string | null;
  /** Who did that; `holdfast`: it was given up. */
  readonly stateBy: string | null;
  /** Since when it is in this state. */
  readonly stateAt: Date;
  /** Since when all its attempts have failed; null: the last one did not. */
  readonly failingSince: Date | null;
  /** It asked not to be called before. */
  readonly restsUntil: Date | null;
  /** How many secrets sign its requests: two while one replaces the other. */
  readonly secrets: number;
  /** When it was made. */
  readonly createdAt: Date;
  /** When it was changed for the last time. */
  readonly updatedAt: Date;
}

/** Deliveries of an endpoint that are not over; of more than 10,000, some. */
export interface WaitingDeliveries {
  /** They run, or wait for their next attempt. */
  readonly waiting: number;
  /** They wait for the endpoint to be enabled. */
  readonly held: number;
  /** Their attempts are spent: dead letters. */
  readonly failed: number;
}

/** One attempt to deliver a webhook. */
export interface WebhookAttempt {
  /** Of the row in the log. */
  readonly id: string;
  /** When it ended. */
  readonly at: Date;
  /** The id of the endpoint. */
  readonly endpoint: string;
  /** The id of the delivery, which is a job. */
  readonly delivery: string;
  /** The id of the message, which is the header `webhook-id`. */
  readonly message: string;
  /** The type of the event. */
  readonly type: string;
  /** 1 for the first attempt. */
  readonly attempt: number;
  /** Whether the endpoint took it. */
  readonly delivered: boolean;
  /** The status of the answer; null: there was none. */
  readonly status: number | null;
  /** How long it took, in milliseconds. */
  readonly ms: number;
  /** The first kilobyte of the answer. */
  readonly answer: string | null;
  /** Why it failed, apart from its status. */
  readonly error: string | null;
}

const dateOf = (value: string | null) => (value === null ? null : new Date(value));

export function endpointView(row: EndpointRow): Endpoint {
  return {
    ...row,
    stateAt: new Date(row.stateAt),
    failingSince: dateOf(row.failingSince),
    restsUntil: dateOf(row.restsUntil),
    createdAt: new Date(row.createdAt),
    updatedAt: new Date(row.updatedAt),
  };
}

export const attemptView = (row: AttemptRow): WebhookAttempt => ({ ...row, at: new Date(row.at) });
