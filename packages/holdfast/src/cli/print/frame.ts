/** One frame of `holdfast top`: queues with the rates between two readings, then workers. */
import { recentAttempts } from '../../inspect/fleet/reports.js';
import {
  type PartialOverview,
  type QueueOverview,
  queueFigures,
} from '../../inspect/queue/overview.js';
import type { Output } from './output.js';
import { right, type TableColumn } from './table.js';
import {
  busyText,
  lockedLines,
  lockedPart,
  queueColumns,
  workerColumns,
  workerValue,
  worry,
} from './views.js';

/** By queue; a queue that was not seen before has none. */
export type Rates = ReadonlyMap<string, { inPerSecond: number; outPerSecond: number }>;

export function ratesBetween(before: PartialOverview, now: PartialOverview): Rates {
  const rates = new Map<string, { inPerSecond: number; outPerSecond: number }>();
  for (const { queue, counts } of now.queues) {
    const earlier = before.queues.find((one) => one.queue.name === queue.name)?.counts.size;
    if (!earlier) continue;
    const { size } = counts;
    const seconds = (Date.parse(size.at) - Date.parse(earlier.at)) / 1000;
    if (seconds <= 0) continue;
    // A server that restarted counts from zero.
    const perSecond = (a: number, b: number) => Math.max(0, b - a) / seconds;
    rates.set(queue.name, {
      inPerSecond: perSecond(earlier.enqueued, size.enqueued),
      outPerSecond: perSecond(earlier.finished, size.finished),
    });
  }
  return rates;
}

const rateText = (value: number | undefined) => (value === undefined ? null : value.toFixed(1));

/** Failed attempts a second by queue, over the last minute, as live workers report them. */
function failuresOf({ workers }: PartialOverview): (queue: string) => number {
  const recent = recentAttempts(workers.map(({ worker }) => worker));
  return (queue) => recent.get(queue)?.failedPerSecond ?? 0;
}

export function frameLines(
  out: Output,
  seen: PartialOverview,
  rates: Rates,
  schema: string,
): string[] {
  const flow = (row: QueueOverview) => rates.get(row.queue.name);
  const failures = failuresOf(seen);
  const failing = (row: QueueOverview) => failures(row.queue.name);
  const columns: TableColumn<QueueOverview>[] = [
    ...queueColumns.filter(({ title }) => title !== 'DONE/S' && title !== 'STATE'),
    right('IN/S', (row) => rateText(flow(row)?.inPerSecond)),
    right('OUT/S', (row) => rateText(flow(row)?.outPerSecond ?? row.rate?.completedPerSecond)),
    right(
      'FAIL/S',
      (row) => rateText(failing(row)),
      (row) => worry(failing(row) > 0),
    ),
    ...queueColumns.filter(({ title }) => title === 'STATE'),
  ];
  const at = seen.queues[0]?.counts.size.at ?? '';
  const busy = busyText(seen.workers.map(({ worker }) => worker));
  return [
    `${out.paint('holdfast', 'bold')} ${schema}  ${at.replace(/\.\d+Z$/, 'Z')}${busy ? `  handlers busy: ${busy}` : ''}`,
    '',
    ...out.tableLines(seen.queues, columns),
    ...lockedLines(seen.locked),
    '',
    ...(seen.workers.length > 0
      ? out.tableLines(seen.workers, workerColumns(seen.locked.length === 0))
      : ['No worker is registered.']),
  ];
}

export function frameValue(seen: PartialOverview, rates: Rates): object {
  const complete = seen.locked.length === 0;
  const failures = failuresOf(seen);
  return {
    queues: seen.queues.map((row) => ({
      ...queueFigures(row),
      ...rates.get(row.queue.name),
      failedPerSecond: failures(row.queue.name),
    })),
    workers: seen.workers.map((worker) => workerValue(worker, complete)),
    ...lockedPart(seen.locked),
  };
}
