/**
 * `holdfast ring`: which worker comes first for how many of the 1024 buckets of a queue that is read by key, or for one
 * key. It is a preference: a worker with a free handler takes any due job. A queue that is read by time has no ring.
 */
import { membersOf } from '../../../api/look/ring.js';
import { ringOwners } from '../../../fleet/ring.js';
import { listWorkers } from '../../../inspect/fleet/workers.js';
import { BUCKETS, bucketOf, checkKey } from '../../../job/key.js';
import type { Call } from '../../command.js';
import { plain, right } from '../../print/table.js';

export async function run({ given, session, out }: Call): Promise<void> {
  const queues = await session.queues(given.texts('queue'));
  const all = await session.read((db) => listWorkers(db, session.schema));
  const workers = all.filter((worker) => worker.status === 'alive');
  const text = given.text('partition-key');
  const key = text === undefined ? null : checkKey(text, '--partition-key');
  const rings: Ring[] = [];
  const byTime: string[] = [];
  for (const { name, ordering } of queues) {
    if (ordering === 'none') {
      byTime.push(name);
      continue;
    }
    const owners = ringOwners(membersOf(workers, name));
    if (owners.length > 0) rings.push({ queue: name, owners });
    else out.note(`No live worker handles "${name}".`);
  }
  // Whoever asks for a key wants one line, and hears of the others only if there is none.
  const others = key === null || byTime.length === queues.length ? byTime : [];
  for (const name of others)
    out.note(`"${name}" is read by time and has no ring: any worker takes the oldest due job.`);
  if (key !== null) return forKey(out, rings, key);
  if (rings.length === 0) return;
  await out.rows(rings.flatMap(shares), [
    { title: 'QUEUE', of: (row) => row.queue },
    { title: 'WORKER', of: (row) => row.worker },
    right('BUCKETS', (row) => row.buckets),
    right('SHARE', (row) => `${((row.buckets / BUCKETS) * 100).toFixed(1)} %`),
  ]);
}

async function forKey(out: Call['out'], rings: readonly Ring[], key: string): Promise<void> {
  const bucket = bucketOf(key);
  for (const { queue, owners } of rings) {
    const worker = owners[bucket] as string;
    if (out.json) await out.value({ queue, key, bucket, worker });
    else
      await out.line(`${plain(key)} is in bucket ${bucket} of "${queue}": ${worker} comes first`);
  }
}

interface Ring {
  readonly queue: string;
  /** By bucket. */
  readonly owners: readonly string[];
}

function shares({ queue, owners }: Ring): { queue: string; worker: string; buckets: number }[] {
  const counts = new Map<string, number>();
  for (const owner of owners) counts.set(owner, (counts.get(owner) ?? 0) + 1);
  return [...counts].map(([worker, buckets]) => ({ queue, worker, buckets }));
}
