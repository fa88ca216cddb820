/**
 * Webhooks out: endpoints of your customers, messages that commit with your data, and signed deliveries. A delivery is a job:
 * it is retried, counted, explained and shown as any other.
 */
import type { Access } from '../../api/access.js';
import { ask } from '../../api/access.js';
import type { Holdfast } from '../../api/holdfast.js';
import { hintQueue } from '../../fleet/wake.js';
import { partsOf } from '../../holdfast.js';
import { statesOf } from '../../inspect/job/states.js';
import { invalid } from '../../job/errors/holdfast-error.js';
import { checkIds } from '../../job/id.js';
import { checkInteger } from '../../job/job.js';
import { checkFlag, checkKnown, type Known } from '../../job/options/known-options.js';
import type { QueueName } from '../../job/queue-name.js';
import { ACT_OPTIONS, type ActOptions, checkActOptions } from '../../operate/options.js';
import { checkWorker } from '../../worker/handlers.js';
import { addService } from '../../worker/services/added.js';
import { inChunks } from '../../worker/services/service-loop.js';
import type { Worker } from '../../worker/worker.js';
import { newDelivering } from './deliver/deliver.js';
import { newPoster } from './deliver/post.js';
import { type Deps, deliveryJobs } from './deps.js';
import type { Endpoints } from './endpoint-methods.js';
import {
  checkEndpointId,
  checkOwner,
  DEFAULT_CONCURRENCY,
  type EndpointOwner,
} from './endpoint-options.js';
import { endpoints } from './endpoints.js';
import { checkOptions, type WebhooksOptions } from './options.js';
import { attempts, prune } from './rows/attempts.js';
import { enabledLately, own, wake } from './rows/deliveries.js';
import { type Sending, sending } from './send.js';
import { attemptView, type WebhookAttempt } from './views.js';

/** Which attempts are listed. */
export interface DeliveriesRequest {
  /** Only those at endpoints of this tenant. Pass it wherever a customer names an endpoint. Default: of all. */
  readonly tenant?: string;
  /** Only those of this endpoint. Default: all. */
  readonly endpoint?: string;
  /** Only those of this message. Default: all. */
  readonly message?: string;
  /** Only those that were delivered, or that were not. Default: both. */
  readonly delivered?: boolean;
  /** Before this one: `next` of the page before. Default: from the latest on. */
  readonly before?: string;
  /** At most so many, up to 1,000. Default 100. */
  readonly limit?: number;
}

/** A page of attempts. */
export interface DeliveriesPage {
  /** The attempts, the latest first. */
  readonly attempts: readonly WebhookAttempt[];
  /** For `before` of the next page; null: there are no more. */
  readonly next: string | null;
}

const REQUEST = {
  ...{ tenant: true, endpoint: true, message: true, delivered: true, before: true, limit: true },
} as const satisfies Known<DeliveriesRequest>;
const SERVICE_MS = 10_000;
const CHUNK = 1_000;

function depsOf(hf: Holdfast, options: WebhooksOptions): Deps {
  const parts = partsOf(hf);
  if (!parts)
    throw invalid('The first argument of webhooks() must come from holdfast(). Nothing was made.');
  const settings = checkOptions(options);
  const { schema, pool, outside, log } = parts;
  const names = (queue: string) => ({ schema, queue });
  const access: Access = { ...parts, names };
  return {
    ...{ hf, access, log, settings, pool, outside, ...deliveryJobs(settings) },
    ...{ names: names(settings.queue), orderedNames: names(settings.ordered) },
  };
}

/** Deliveries that an attempt has held although the endpoint was enabled meanwhile. */
async function wakeLost({ names, orderedNames }: Deps, db: Parameters<typeof wake>[0]) {
  let woken = 0;
  for (const of of await enabledLately(db, names, names.queue, CHUNK)) {
    const where = of.ordered ? orderedNames : names;
    const some = await wake(db, where, of, CHUNK);
    await hintQueue(db, where, some);
    woken += some.length;
  }
  return woken;
}

/** What `webhooks()` makes. */
export interface Webhooks extends Sending {
  /** The queues of the deliveries. */
  readonly queues: readonly QueueName[];
  /** Endpoints: where webhooks go. */
  readonly endpoints: Endpoints;
  /**
   * Makes the two queues of the deliveries. Those that are there stay as they are.
   * @example await hooks.create();
   */
  create(queue?: {
    /** Of ordered endpoints: a delivery whose attempts are spent holds those after it (default), or lets them go. */
    readonly failed?: 'hold' | 'free';
  }): Promise<void>;
  /**
   * Adds the handlers of deliveries to a worker. Call it before `run()`.
   * @example hooks.deliver(worker);
   */
  deliver(worker: Worker): Worker;
  /**
   * The log: one row for each attempt, the latest first.
   * @example const { attempts } = await hooks.deliveries({ endpoint: acme.id, delivered: false });
   */
  deliveries(request?: DeliveriesRequest): Promise<DeliveriesPage>;
  /**
   * Sends deliveries again, under the same message id: those that wait now, those that failed or were delivered once more,
   * as long as the archive keeps them. Returns the ids of those that were found; with `tenant`, those of other tenants are not.
   * @example await hooks.resend(['0199a1c2-7d3e-7000-8000-000000009182'], { reason: 'the receiver lost it' });
   */
  resend(ids: readonly string[], call?: ActOptions & EndpointOwner): Promise<string[]>;
}

/**
 * Webhooks to your customers: endpoints, messages, deliveries.
 * @example
 * const hooks = webhooks(hf, { queue: 'webhooks' });
 * await hooks.create();
 * await hooks.send({ tenant: 'acme', type: 'order.paid', data: { orderId: 9182 } }, { tx: client });
 */
export function webhooks(hf: Holdfast, options: WebhooksOptions = {}): Webhooks {
  const deps = depsOf(hf, options);
  const { access, settings, names, orderedNames, deliver, deliverInOrder } = deps;

  return {
    queues: [names.queue, orderedNames.queue] as readonly QueueName[],
    endpoints: endpoints(deps),
    ...sending(deps),

    async create(queue: { readonly failed?: 'hold' | 'free' } = {}): Promise<void> {
      checkKnown(queue, { failed: true }, 'create()', 'No queue was made.');
      const { failed = 'hold' } = queue;
      await hf.createQueue(names.queue as never, { perKey: DEFAULT_CONCURRENCY, fair: true });
      await hf.createQueue(orderedNames.queue as never, { ordering: 'key', deadLetters: failed });
    },

    deliver(worker: Worker): Worker {
      checkWorker(worker, 'The first argument of deliver()', 'No handler was added.');
      const poster = newPoster(settings);
      const handler = newDelivering(deps, poster);
      partsOf(hf)?.onClose(async () => poster.close());
      worker.handle(deliver, handler).handle(deliverInOrder, handler);
      const service = { queue: names.queue, everyMs: SERVICE_MS };
      addService(worker, {
        ...{ ...service, name: 'prune webhook log', atMost: CHUNK },
        run: ({ engine }) =>
          inChunks(CHUNK, (limit) => prune(engine, names, limit, settings.logRetentionMs)),
      });
      addService(worker, {
        ...{ ...service, name: 'wake held webhooks', atMost: CHUNK },
        run: ({ engine }) => wakeLost(deps, engine),
      });
      return worker;
    },

    async deliveries(request: DeliveriesRequest = {}): Promise<DeliveriesPage> {
      checkKnown(request, REQUEST, 'deliveries()', 'Nothing was read.');
      checkOwner(request);
      const { tenant, endpoint, message, before, limit = 100 } = request;
      const delivered = checkFlag(request.delivered, 'delivered', 'Nothing was read.');
      const most = checkInteger(limit, 'limit', 1, 1_000);
      if (before !== undefined && !/^\d{1,18}$/.test(before))
        throw invalid('before must be the `next` of a page. Nothing was read.');
      const found = await ask(access, (db) =>
        attempts(db, names, {
          endpoint: endpoint === undefined ? null : checkEndpointId(endpoint),
          ...{ message: message ?? null, delivered: delivered ?? null, before: before ?? null },
          ...{ limit: most + 1, tenant },
        }),
      );
      const page = found.slice(0, most).map(attemptView);
      return { attempts: page, next: found.length > most ? (page.at(-1)?.id ?? null) : null };
    },

    async resend(
      ids: readonly string[],
      given: ActOptions & EndpointOwner = {},
    ): Promise<string[]> {
      checkKnown(given, { ...ACT_OPTIONS, tenant: true }, 'resend()', 'Nothing was sent.');
      checkActOptions(given);
      checkOwner(given);
      const { tenant, ...call } = given;
      const wanted = checkIds(ids);
      const found: string[] = [];
      for (const where of [names, orderedNames]) {
        const states = await ask(access, async (db) => {
          const some = await statesOf(db, where, wanted);
          if (tenant === undefined) return some;
          const mine = await own(db, where, wanted, { queue: names.queue, tenant });
          return some.filter(({ id }) => mine.has(id));
        });
        const of = (fits: (state: (typeof states)[number]) => boolean) =>
          states.filter(fits).map(({ id }) => id);
        const queue = where.queue as never;
        const dead = of(({ status, archived }) => !archived && status === 'dead_letter');
        if (dead.length > 0) found.push(...(await hf.retry(dead, { ...call, queue })));
        for (const id of of(({ status }) => status === 'pending')) {
          await hf.update(id, { delay: 0 }, { ...call, queue });
          found.push(id);
        }
        const over = of(({ archived }) => archived);
        if (over.length === 0) continue;
        await hf.archive.replay(over, { ...call, queue, completed: true });
        found.push(...over);
      }
      return found;
    },
  };
}
