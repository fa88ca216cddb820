/** The clocks of workers, beside the database's: each measures its own with a heartbeat. */
import { isSilent, type WorkerRow } from '../../fleet/workers.js';
import { firstFew, span } from '../../reading/words.js';
import { type Finding, type Limits, note, problem } from '../doctor.js';

/** A transaction may have been open for so long before it enqueued. */
const OPEN_MS = 5 * 60_000;

/** An id carries the time of the machine that made it; null: it is of another kind. */
function madeAt(id: string): number | null {
  return id[14] === '7' ? Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16) : null;
}

/** Producers whose ids are ahead of the database's clock, by what the newest of a queue say. */
export function judgeIds(
  queue: string,
  rows: readonly { readonly id: string; readonly createdMs: number }[],
): Finding[] {
  const ahead = rows.map(({ id, createdMs }) => ({ id, ms: (madeAt(id) ?? 0) - createdMs }));
  const [most] = ahead.sort((a, b) => b.ms - a.ms);
  if (!most || most.ms < OPEN_MS) return [];
  return [
    note(
      'clock',
      `Job ${most.id} of "${queue}" has an id from ${span(most.ms)} after it was written: the clock of who enqueued it is ahead.`,
      'Ids carry the time of the machine that made them: such jobs stand last in lists, and delays by date are off.',
      'Let NTP set the clocks of the machines that enqueue (timedatectl set-ntp true).',
    ),
  ];
}

const NAMED = 5;
const FAR_MS = 60_000;

/** The worker's clock minus the database's; null: it does not say. Within the time that the way took it is not known. */
export function skewOf({ metadata }: WorkerRow): number | null {
  const { clock } = (metadata ?? {}) as { clock?: { aheadMs?: unknown; withinMs?: unknown } };
  if (typeof clock?.aheadMs !== 'number' || typeof clock.withinMs !== 'number') return null;
  const far = Math.max(0, Math.abs(clock.aheadMs) - clock.withinMs);
  return Math.sign(clock.aheadMs) * far;
}

export function judgeClocks(workers: readonly WorkerRow[], { skewMs }: Limits): Finding[] {
  const off = workers
    .filter((worker) => worker.status !== 'dead' && !isSilent(worker))
    .map((worker) => ({ id: worker.id, ms: skewOf(worker) ?? 0 }))
    .filter(({ ms }) => Math.abs(ms) > skewMs)
    .sort((a, b) => Math.abs(b.ms) - Math.abs(a.ms));
  const [first] = off;
  if (!first) return [];
  const each = off.map(
    ({ id, ms }) => `${id} is ${span(Math.abs(ms))} ${ms > 0 ? 'ahead' : 'behind'}`,
  );
  return [
    (Math.abs(first.ms) > FAR_MS ? problem : note)(
      'clock',
      `Clocks of workers are off from the database's: ${firstFew(each, NAMED, 'worker')}.`,
      'The database decides about leases, so no job is lost; but ids carry the time of the machine that made them, and lists, times in logs and delays by date are off.',
      'Let NTP set the clocks of their machines (timedatectl set-ntp true).',
    ),
  ];
}
