/** Options of `webhooks()`, checked: one mistyped name or value is refused before anything is done. */
import { invalid, shown } from '../../job/errors/holdfast-error.js';
import { checkDefinition, checkInteger, type JobDefinition } from '../../job/job.js';
import { type Duration, durationMs } from '../../job/options/duration.js';
import { checkFlag, checkKnown, type Known } from '../../job/options/known-options.js';
import type { QueueName } from '../../job/queue-name.js';
import { checkQueueName } from '../../postgres/names.js';
import { reachable } from './guard/addresses.js';
import { type Guard, newGuard, type Resolve } from './guard/guard.js';

/** The payload of the job that tells of an endpoint that was disabled. */
export interface EndpointDisabled {
  /** The id of the endpoint. */
  readonly endpoint: string;
  /** Whose it is. */
  readonly tenant: string;
  /** Where its webhooks went. */
  readonly url: string;
  /** Why it was disabled. */
  readonly reason: string;
}

/**
 * Options of `webhooks()`.
 * @example const hooks = webhooks(hf, { queue: 'webhooks', timeout: '10s', allow: ['10.0.0.0/8'] });
 */
export interface WebhooksOptions {
  /** The queue of the deliveries; those of ordered endpoints are in a queue of this name and `_ordered`. Default `webhooks`. */
  readonly queue?: QueueName;
  /** Ranges of addresses that webhooks may reach beside the public ones. Default: none. */
  readonly allow?: readonly string[];
  /** Also call `http:` URLs. Default false. */
  readonly allowHttp?: boolean;
  /** Looks a host up. What it returns is checked. Default: as the system does it. */
  readonly resolve?: Resolve;
  /** Certificates of authorities that you trust beside the public ones, as PEM. Default: none. */
  readonly ca?: string | readonly string[];
  /** How long a request may take, up to the last byte of the answer. Default 15 s, at most 5 minutes. */
  readonly timeout?: Duration;
  /** How long to wait after each failed attempt. Default: 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h. */
  readonly retry?: readonly Duration[];
  /** An endpoint whose attempts have all failed for so long is disabled; `'never'`: it is not. Default 5 days. */
  readonly disableAfter?: Duration | 'never';
  /** How long the log of attempts is kept. Default 30 days. */
  readonly logRetention?: Duration;
  /** A tenant can have at most so many endpoints, 1 to 10,000: each is a job for each message. Default 100. */
  readonly maxEndpoints?: number;
  /** A job that is enqueued when Holdfast disables an endpoint, in the same transaction. Default: none. */
  readonly onDisabled?: JobDefinition<EndpointDisabled, EndpointDisabled>;
}

const OPTIONS = {
  ...{ queue: true, allow: true, allowHttp: true, resolve: true, ca: true, timeout: true },
  ...{ retry: true, disableAfter: true, logRetention: true, maxEndpoints: true },
  onDisabled: true,
} as const satisfies Known<WebhooksOptions>;

/** The schedule that Standard Webhooks recommends. */
const SCHEDULE: readonly Duration[] = [
  ...(['5s', '5m', '30m', '2h', '5h', '10h', '14h', '20h', '24h'] as const),
];
const DAY_MS = 86_400_000;
const UNDONE = 'Nothing was made.';
const MAX_RETRIES = 100;
/** Of a tenant. */
export const MOST_ENDPOINTS = 10_000;

export interface Settings {
  readonly queue: string;
  readonly ordered: string;
  readonly guard: Guard;
  readonly ca: string | readonly string[] | undefined;
  readonly timeoutMs: number;
  readonly delaysMs: readonly number[];
  readonly disableAfterMs: number;
  readonly logRetentionMs: number;
  readonly maxEndpoints: number;
  readonly onDisabled: JobDefinition<EndpointDisabled, EndpointDisabled> | null;
}

export function checkOptions(options: WebhooksOptions): Settings {
  checkKnown(options, OPTIONS, 'webhooks()', UNDONE);
  const { queue = 'webhooks', retry = SCHEDULE, resolve, onDisabled, ca } = options;
  if (!Array.isArray(retry) || retry.length > MAX_RETRIES)
    throw invalid(
      `retry must be a list of at most ${MAX_RETRIES} durations, not ${shown(retry)}. ${UNDONE}`,
    );
  if (resolve !== undefined && typeof resolve !== 'function')
    throw invalid(`resolve must be a function, not ${shown(resolve)}. ${UNDONE}`);
  if (onDisabled !== undefined) checkDefinition(onDisabled, 'onDisabled', UNDONE);
  if (ca !== undefined && ![ca].flat().every((one) => typeof one === 'string'))
    throw invalid(`ca must be a text in PEM, or a list of them. ${UNDONE}`);
  const allowHttp = checkFlag(options.allowHttp, 'allowHttp', UNDONE) ?? false;
  const never = options.disableAfter === 'never';
  const time = (value: Duration, what: string, min: number, max: number) =>
    durationMs(value, what, { min, max });
  return {
    queue: checkQueueName(queue),
    ordered: checkQueueName(`${queue}_ordered`),
    guard: newGuard(reachable(options.allow), { allowHttp, ...(resolve && { resolve }) }),
    ca,
    timeoutMs: time(options.timeout ?? '15s', 'timeout', 10, 300_000),
    delaysMs: retry.map((delay, n) => time(delay, `retry[${n}]`, 0, 7 * DAY_MS)),
    disableAfterMs: never
      ? 3_650 * DAY_MS
      : time((options.disableAfter ?? '5d') as Duration, 'disableAfter', 0, 365 * DAY_MS),
    logRetentionMs: time(options.logRetention ?? '30d', 'logRetention', 1_000, 3_650 * DAY_MS),
    maxEndpoints: checkInteger(options.maxEndpoints ?? 100, 'maxEndpoints', 1, MOST_ENDPOINTS),
    onDisabled: onDisabled ?? null,
  };
}
