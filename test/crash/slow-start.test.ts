/** A worker that starts on a busy machine is not declared dead between its registration and its lock. */
import { expect, test } from 'vitest';
import { QUICK, readyWorker, startWorker } from '../support/child.js';
import { type Ground, ground, jobs } from '../support/ground.js';
import { type Held, heldLine } from '../support/held-line.js';
import { long } from '../support/long.js';
import { until } from '../support/until.js';
import { watchersAreOld } from '../support/watchers.js';

interface Entry {
  readonly id: string;
  readonly status: string;
  readonly agoMs: number;
}

/** Those that registered after the first. */
async function entries(db: Ground, first: string): Promise<Entry[]> {
  return db.rows<Entry>(
    `SELECT id, status, (extract(epoch FROM clock_timestamp() - started_at) * 1000)::float8 AS "agoMs"
     FROM holdfast.workers WHERE id <> $1`,
    [first],
  );
}

const SLOW: readonly (Held & { readonly what: string })[] = [
  { what: 'the thread that takes the lock connects late', names: /holdfast keeper/ },
  {
    what: 'the answer that says that its lock counts is lost, and the next connection is late',
    names: /holdfast (keeper|listener)/,
    from: /SET holds_liveness_lock/,
  },
];

test.each(SLOW.slice(long(1, 0)))('$what', async (held) => {
  const db = await ground();
  const watcher = await readyWorker(db.url);
  await watchersAreOld(db);
  const line = await heldLine(db.url, held);
  // It may have been silent for its TTL of two seconds, and longer than a watcher waits.
  const worker = startWorker(line.url, QUICK);
  const { id } = await until('it has been registered for five seconds', async () => {
    const [entry] = await entries(db, watcher.workerId);
    if (entry && entry.agoMs > 5_000) return entry;
    expect([undefined, 'alive']).toContain(entry?.status);
    return null;
  });
  if (held.from) expect(line.kept).toBe(1);
  line.release();
  await worker.hears('started', { workerId: id });
  watcher.signal('SIGTERM');
  await watcher.exited;
  const { id: job } = await db.hf.enqueue(jobs.noop, {});
  await db.completed(1);
  expect(await db.hf.job(job)).toMatchObject({ claimedBy: id, attempts: 1 });
  expect(worker.heard('reregistered')).toBeUndefined();
});
