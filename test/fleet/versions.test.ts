/** Workers that do not handle the same jobs share a queue: each job finds one that can run it, and soon. */
import { expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { type FleetWorker, fleetWorker, type Step } from '../support/fleet.js';
import { type Ground, ground } from '../support/ground.js';
import { checkOrder, keepLog, readLog } from '../support/order-log.js';
import { until } from '../support/until.js';

/** A poll, and what a busy machine takes; a worker that waits for its next heartbeat takes ten seconds. */
const PROMPT_MS = 2_000;

async function byWorker(
  db: Ground,
  type: string,
  version: number,
): Promise<Record<string, number>> {
  const rows = await db.rows<{ by: string; count: number }>(
    `SELECT claimed_by AS by, count(*)::int FROM holdfast.inbox_archive
     WHERE type = $1 AND version = $2 GROUP BY 1`,
    [type, version],
  );
  return Object.fromEntries(rows.map(({ by, count }) => [by, count]));
}

/** The longest that a job without order waited for its claim. */
async function longestWaitMs(db: Ground): Promise<number> {
  const [row] = await db.rows<{ ms: number }>(
    `SELECT max(extract(epoch FROM claimed_at - created_at))::float8 * 1000 AS ms
     FROM holdfast.inbox_archive`,
  );
  return row?.ms as number;
}

const keys = (count: number) => Array.from({ length: count }, (_, n) => `order:${n}`);

test('two workers with different handlers: every job is run by the one that can, and soon', async () => {
  const db = await ground();
  const [mailer, scanner] = (await Promise.all([
    fleetWorker(db.url, { options: {}, handles: { mail: 1 } }),
    fleetWorker(db.url, { options: {}, handles: { scan: 1, sign: 1 } }),
  ])) as [FleetWorker, FleetWorker];
  for (const key of keys(30)) {
    await db.hf.enqueueMany(
      ['mail', 'scan', 'sign'].map((type) => job(type).item({}, { partitionKey: key })),
    );
  }
  await db.completed(90);
  expect(await byWorker(db, 'mail', 1)).toEqual({ [mailer.workerId]: 30 });
  expect(await byWorker(db, 'scan', 1)).toEqual({ [scanner.workerId]: 30 });
  expect(await byWorker(db, 'sign', 1)).toEqual({ [scanner.workerId]: 30 });
  expect(await longestWaitMs(db)).toBeLessThan(PROMPT_MS);
});

test('the canary of a deploy runs what only it can, and its part of the rest; order holds across them', async () => {
  const db = await ground();
  await keepLog(db);
  await db.hf.configureQueue('inbox', { ordering: 'key' });
  const options = { poll: '100ms' } as const;
  const old = await Promise.all(
    [1, 2].map(() => fleetWorker(db.url, { options, handles: { step: 1 } })),
  );
  const canary = await fleetWorker(db.url, { options, handles: { step: 2 } });
  const versions = [
    job<Step>('step'),
    job<Step>('step', { version: 2, upgrade: { 1: (payload: Step) => payload } }),
  ] as const;
  const all = keys(60);
  for (let n = 0; n < 4; n++) {
    // Of the first ones the canary takes some for sure: the others are frozen for a moment.
    const freezes = n === 0;
    if (freezes) for (const worker of old) worker.signal('SIGSTOP');
    await db.hf.enqueueMany(
      all.map((key) => versions[n === 2 ? 1 : 0].item({ n }, { partitionKey: key })),
    );
    if (freezes) await db.completed(60);
    if (freezes) for (const worker of old) worker.signal('SIGCONT');
  }
  await db.completed(240);
  expect(await byWorker(db, 'step', 2)).toEqual({ [canary.workerId]: 60 });
  const first = await byWorker(db, 'step', 1);
  const everybody = [...old, canary].map(({ workerId }) => workerId);
  expect(Object.keys(first).sort()).toEqual(everybody.sort());

  // Without it, the new version waits and holds its keys; the others go on.
  canary.signal('SIGTERM');
  await canary.exited;
  await db.hf.enqueueMany(
    all.map((key, place) => versions[place % 2 ? 1 : 0].item({ n: 4 }, { partitionKey: key })),
  );
  await db.hf.enqueueMany(all.map((key) => versions[0].item({ n: 5 }, { partitionKey: key })));
  await db.completed(300);
  const left = await db.rows(
    `SELECT version, status::text, attempts, count(*)::int FROM holdfast.inbox GROUP BY 1, 2, 3
     ORDER BY 1`,
  );
  expect(left).toEqual([
    { version: 1, status: 'pending', attempts: 0, count: 30 },
    { version: 2, status: 'pending', attempts: 0, count: 30 },
  ]);
  const next = await fleetWorker(db.url, { options, handles: { step: 2 } });
  const at = performance.now();
  await until('the new version is done', async () => {
    return (await byWorker(db, 'step', 2))[next.workerId] === 30;
  });
  const tookMs = performance.now() - at;
  await db.completed(360);
  const checked = checkOrder(await readLog(db), new Set());
  expect(checked.broken).toEqual([]);
  expect([...checked.ended.values()]).toEqual(all.map(() => 6));
  expect(tookMs).toBeLessThan(PROMPT_MS);
});
