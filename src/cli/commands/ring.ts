/**
 * `holdfast ring`: which worker owns how many buckets, and with --key, who owns the bucket of a key. Types
 * that are handled by the same workers are owned alike and shown together.
 */
import { listWorkers, type WorkerRow } from '../../inspect/workers.js';
import { BUCKETS, bucketOf, checkKey } from '../../job/key.js';
import { type Call, UsageError } from '../command.js';
import { ringOwner } from '../ring.js';

interface Share {
  readonly queue: string;
  readonly types: readonly string[];
  readonly worker: string | null;
  readonly buckets: number;
}

interface Kind {
  readonly queue: string;
  readonly type: string;
  readonly version: number;
}

/** Every version of every type that somebody handles: during a deploy not all have the same owners. */
function kindsOf(workers: readonly WorkerRow[], queue: string): Kind[] {
  const kinds = new Map<string, Kind>();
  for (const worker of workers) {
    const handles = (worker.handles ?? {}) as Record<string, Record<string, number>>;
    for (const [type, version] of Object.entries(handles[queue] ?? {})) {
      kinds.set(`${type}@${version}`, { queue, type, version });
    }
  }
  return [...kinds.values()];
}

const nameOf = ({ type, version }: Kind) => (version === 1 ? type : `${type}@${version}`);

export async function run({ args, given, session, out }: Call): Promise<void> {
  if (args.length > 0) throw new UsageError(`ring takes no argument, but "${args[0]}" was given.`);
  const queues = await session.queues(given.texts('queue'));
  const all = await session.read((db) => listWorkers(db, session.schema));
  const workers = all.filter((worker) => worker.status === 'alive');
  const competing = queues.filter((queue) => queue.assignment === 'competing');
  for (const queue of competing) out.note(`Any worker claims any bucket of "${queue.name}".`);
  const kinds = queues
    .filter((queue) => !competing.includes(queue))
    .flatMap((queue) => kindsOf(workers, queue.name));
  if (kinds.length === 0) {
    out.note('No live worker handles anything on the ring, so nobody owns a bucket.');
    return;
  }
  const key = given.text('key');
  if (key !== undefined) {
    const bucket = bucketOf(checkKey(key, '--key'));
    const rows = kinds.map((kind) => ({
      ...kind,
      key,
      bucket,
      worker: ringOwner(workers, { ...kind, bucket }),
    }));
    await out.rows(rows, [
      { title: 'QUEUE', of: (row) => row.queue },
      { title: 'TYPE', of: (row) => nameOf(row) },
      { title: 'BUCKET', of: (row) => row.bucket, align: 'right' },
      { title: 'WORKER', of: (row) => row.worker },
    ]);
    return;
  }
  await out.rows(shares(kinds, workers), [
    { title: 'QUEUE', of: (row) => row.queue },
    { title: 'WORKER', of: (row) => row.worker },
    { title: 'BUCKETS', of: (row) => row.buckets, align: 'right' },
    {
      title: 'SHARE',
      of: (row) => `${((row.buckets / BUCKETS) * 100).toFixed(1)} %`,
      align: 'right',
    },
    { title: 'TYPES', of: (row) => row.types.join(' ') },
  ]);
}

function shares(kinds: readonly Kind[], workers: readonly WorkerRow[]): Share[] {
  const alike = new Map<string, { queue: string; types: string[]; owners: (string | null)[] }>();
  for (const kind of kinds) {
    const owners = Array.from({ length: BUCKETS }, (_, bucket) =>
      ringOwner(workers, { ...kind, bucket }),
    );
    const group = `${kind.queue} ${owners.join()}`;
    const seen = alike.get(group);
    if (seen) seen.types.push(nameOf(kind));
    else alike.set(group, { queue: kind.queue, types: [nameOf(kind)], owners });
  }
  return [...alike.values()].flatMap(({ queue, types, owners }) => {
    const counts = new Map<string | null, number>();
    for (const one of owners) counts.set(one, (counts.get(one) ?? 0) + 1);
    return [...counts].map(([worker, buckets]) => ({ queue, types, worker, buckets }));
  });
}
