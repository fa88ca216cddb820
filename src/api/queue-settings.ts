/** What a program sets on queues: made, configured, paused and resumed. */
import { setNotify } from '../fleet/wake.js';
import { type Duration, durationMs } from '../job/duration.js';
import { HoldfastError } from '../job/errors.js';
import { checkInteger } from '../job/job.js';
import { checkKnown, type Known } from '../job/known-options.js';
import { configure, setPaused } from '../operate/queue.js';
import { withClient } from '../postgres/pool.js';
import { createQueue, type NewQueueOptions } from '../schema/queue.js';
import { type Access, act } from './access.js';

export interface QueueOptions extends NewQueueOptions {
  /** Whether inserts wake sleeping workers. Default true. */
  readonly notify?: boolean;
  readonly maxPayloadBytes?: number;
  readonly idempotencyRetention?: Duration;
  /** 0: completed jobs are deleted. */
  readonly archiveRetention?: Duration;
  readonly effectRetention?: Duration;
}

const QUEUE_OPTIONS = {
  ...{ ordering: true, deadLetters: true, notify: true, maxPayloadBytes: true },
  ...{ idempotencyRetention: true, archiveRetention: true, effectRetention: true },
} as const satisfies Known<QueueOptions>;

export const MAX_PAYLOAD_LIMIT = 64 * 1024 * 1024;
const MAX_RETENTION_MS = 3650 * 86_400_000;

/** What is left out stays as it is. */
function order({ ordering, deadLetters }: NewQueueOptions): NewQueueOptions {
  return {
    ...(ordering !== undefined && { ordering }),
    ...(deadLetters !== undefined && { deadLetters }),
  };
}

const unknownQueue = (queue: string) =>
  new HoldfastError('QUEUE_UNKNOWN', `There is no queue "${queue}"; nothing was set.`);

export function queueSettings(access: Access) {
  const { schema, pool, names } = access;

  async function turn(queue: string, paused: boolean): Promise<void> {
    if (!(await setPaused(act(access), names(queue), paused))) throw unknownQueue(queue);
  }

  return {
    /** Another queue of the shape of `inbox`. False: it existed already. */
    createQueue: async (queue: string, settings: NewQueueOptions = {}): Promise<boolean> =>
      withClient(pool(), (client) => createQueue(client, schema, queue, settings)),

    async configureQueue(queue: string, settings: QueueOptions): Promise<void> {
      checkKnown(settings, QUEUE_OPTIONS, 'configureQueue()', 'Nothing was set.');
      const time = (value: Duration | undefined, what: string, min = 1000) =>
        value === undefined ? undefined : durationMs(value, what, { min, max: MAX_RETENTION_MS });
      const found = await configure(act(access), names(queue), {
        maxPayloadBytes:
          settings.maxPayloadBytes === undefined
            ? undefined
            : checkInteger(settings.maxPayloadBytes, 'maxPayloadBytes', 1, MAX_PAYLOAD_LIMIT),
        idempotencyRetentionMs: time(settings.idempotencyRetention, 'idempotencyRetention'),
        archiveRetentionMs: time(settings.archiveRetention, 'archiveRetention', 0),
        effectRetentionMs: time(settings.effectRetention, 'effectRetention'),
        ...order(settings),
      });
      if (!found) throw unknownQueue(queue);
      const { notify } = settings;
      if (notify === undefined) return;
      await withClient(pool(), (client) => setNotify(client, names(queue), notify));
    },

    pause: async (queue = 'inbox'): Promise<void> => turn(queue, true),
    resume: async (queue = 'inbox'): Promise<void> => turn(queue, false),
  };
}
