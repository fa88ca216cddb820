/** Finds due jobs that no worker handles. One worker checks all queues, and says so again after sixty rounds. */
import type { QueueSettings } from '../../fleet/registry.js';
import type { Unhandled } from '../../inspect/fleet/unhandled.js';
import { MOST_QUEUES } from '../claim/idle-poll.js';
import type { SharedDeps } from '../deps.js';
import { rounds } from '../time.js';

/** Producers may make up types: a check says this many at most. */
const MAX_TYPES = MOST_QUEUES / 5;

type Queue = Pick<QueueSettings, 'name' | 'ordering'>;

interface UnhandledDeps extends Pick<SharedDeps, 'time' | 'log'> {
  readonly settings: { readonly maintenanceMs: number };
  /** The first of the fleet checks all queues. */
  readonly membership: { readonly isFirst: boolean; readonly queues: readonly Queue[] };
  readonly find: (queue: Queue, graceMs: number) => Promise<readonly Unhandled[]>;
  /** What each of these types was probably meant to be, as a sentence; '' for none. */
  readonly meant: (queue: Queue, types: readonly string[]) => Promise<readonly string[]>;
  /** Of these queues, those in which there is any job. */
  readonly used: (queues: readonly string[]) => Promise<ReadonlySet<string>>;
}

export function watchUnhandled(deps: UnhandledDeps): () => void {
  const { time, log, membership, find, meant, used } = deps;
  const { maintenanceMs } = deps.settings;
  const warnedAt = new Map<string, number>();
  const check = async (queue: Queue) => {
    // No answer is no news: what keeps the database from it is reported by those who need it.
    const found = await find(queue, maintenanceMs).catch(() => []);
    for (const [key, at] of warnedAt)
      if (time.now() - at >= 60 * maintenanceMs) warnedAt.delete(key);
    const news = found.filter(({ type }) => !warnedAt.has(`${queue.name} ${type}`));
    const said = news.slice(0, MAX_TYPES);
    if (said.length === 0) return;
    const types = said.map(({ type }) => type);
    const hints = await meant(queue, types).catch(() => types.map(() => ''));
    for (const [n, { type, version, id, dueForMs }] of said.entries()) {
      warnedAt.set(`${queue.name} ${type}`, time.now());
      const hint = hints[n]?.trim() || undefined;
      log.warn(
        { queue: queue.name, type, version, dueForMs, job: id, hint },
        'due jobs wait for a type or a version that no live worker handles',
      );
    }
  };
  return rounds(time, 2 * maintenanceMs, async () => {
    const queues = membership.isFirst ? membership.queues : [];
    for (let from = 0; from < queues.length; from += MOST_QUEUES) {
      const some = queues.slice(from, from + MOST_QUEUES);
      const names = await used(some.map(({ name }) => name)).catch(() => null);
      for (const queue of some) if (names?.has(queue.name) !== false) await check(queue);
    }
  });
}
