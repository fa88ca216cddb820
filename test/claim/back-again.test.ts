/**
 * Jobs that become due without an insert of that moment: delayed ones, retries, snoozes, recovered ones, and
 * the next of a key. A fleet at rest starts them when they are due, and not when somebody polls. The bar is
 * 50 ms, plus what this machine needs for a few statements just then.
 */
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { Cancel, DeadLetter, job, Snooze } from '../../packages/holdfast/src/index.js';
import { claimByTime } from '../support/claiming.js';
import { testDatabase } from '../support/database.js';
import { hearing } from '../support/hears.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const LATE_MS = 50;
/** What a poll would find is found much later than any bar here. */
const RARELY = { poll: '30s' } as const;
const KINDS = [
  ['time', 'inbox'],
  ['key', 'ledger'],
] as const;

beforeAll(() => db.hf.createQueue('ledger', { ordering: 'key' }));
beforeEach(() => db.rows('TRUNCATE holdfast.inbox, holdfast.ledger'));

/** Everybody waits for hints. */
const asleep = (workers: number, queue = 'inbox') =>
  until('the fleet sleeps', async () => (await db.rows(hearing(queue))).length >= workers);

/** How long a statement takes here, at worst, while something else goes on. */
function watchMachine() {
  let [on, worst] = [true, 0];
  const watching = (async () => {
    while (on) {
      const from = performance.now();
      await db.rows('SELECT 1');
      await new Promise((resolve) => setTimeout(resolve, 5));
      worst = Math.max(worst, performance.now() - from - 5);
    }
  })();
  return async () => {
    on = false;
    await watching;
    return worst;
  };
}

/** Nine of ten are on time, and none is so late that a poll or a look must have found it. */
async function expectOnTime(lateMs: readonly number[], machine: () => Promise<number>) {
  const slack = 4 * (await machine());
  const sorted = lateMs.toSorted((a, b) => a - b);
  expect(sorted[0]).toBeGreaterThanOrEqual(-2);
  expect(sorted[Math.floor(sorted.length * 0.9)]).toBeLessThan(LATE_MS + slack);
  expect(sorted.at(-1)).toBeLessThan(2 * LATE_MS + 2 * slack);
}

/** In a queue of either kind, each with a worker of its own. */
async function inBoth(work: (queue: string) => Promise<void>): Promise<void> {
  await Promise.all(KINDS.map(([, queue]) => work(queue)));
}

async function delayedOnTime(queue: string): Promise<void> {
  const delayed = job<{ n: number }>('delayed', { queue });
  const ranAt = new Map<number, number>();
  start(
    db.hf,
    (w) => w.handle(delayed, ({ payload }) => void ranAt.set(payload.n, Date.now())),
    RARELY,
  );
  await asleep(1, queue);
  const machine = watchMachine();
  const delays = Array.from({ length: 60 }, (__, n) => 200 + ((n * 617) % 2_400));
  // On a slow machine an enqueue may be over only after its job is due.
  const due = await Promise.all(
    delays.map(async (ms, n) => {
      const runAt = new Date(Date.now() + ms);
      await db.hf.enqueue(delayed, { n }, { partitionKey: `order:${n}`, runAt });
      return { at: runAt.getTime(), enqueuedAt: Date.now() };
    }),
  );
  await until('all of them ran', () => ranAt.size === delays.length);
  const early = due.filter(({ at }, n) => (ranAt.get(n) ?? 0) < at - 2);
  expect(early).toEqual([]);
  const lateMs = due.map(({ at, enqueuedAt }, n) =>
    Math.max(0, (ranAt.get(n) ?? 0) - Math.max(at, enqueuedAt)),
  );
  await expectOnTime(lateMs, machine);
}

test('delayed jobs start when they are due, however close to each other', () =>
  inBoth(delayedOnTime));

const AGAIN = {
  failed: () => Promise.reject(new Error('not yet')),
  snoozed: (delayMs: number) => Promise.reject(new Snooze(delayMs)),
};

async function againOnTime(queue: string, how: keyof typeof AGAIN): Promise<void> {
  const DELAYS = [150, 400, 800, 1_200];
  const kind = job<{ n: number }>(`again_${how}`, { queue, retry: () => 600 });
  const endedAt = new Map<number, number>();
  const lateMs: number[] = [];
  start(
    db.hf,
    (w) =>
      w.handle(kind, ({ payload: { n } }) => {
        const delayMs = how === 'failed' ? 600 : (DELAYS[n % DELAYS.length] as number);
        const ended = endedAt.get(n);
        if (ended !== undefined) return void lateMs.push(performance.now() - ended - delayMs);
        endedAt.set(n, performance.now());
        return AGAIN[how](delayMs);
      }),
    RARELY,
  );
  await asleep(1, queue);
  const machine = watchMachine();
  await db.hf.enqueueMany(
    Array.from({ length: 8 }, (__, n) => kind.item({ n }, { partitionKey: `order:${n}` })),
  );
  await until('all of them ran again', () => lateMs.length === 8);
  await expectOnTime(lateMs, machine);
}

test.each(['failed', 'snoozed'] as const)('a %s job runs again when it is due', (how) =>
  inBoth((queue) => againOnTime(queue, how)),
);

test('a job that is due long after its enqueue starts when it is due, also if nobody knew of it', async () => {
  const kinds = KINDS.map(([, queue]) => job<{ dueAt: number }>(`late_${queue}`, { queue }));
  // Further away than hints reach, and enqueued before the worker is there.
  const runAt = new Date(Date.now() + 6_000);
  for (const kind of kinds) await db.hf.enqueue(kind, { dueAt: runAt.getTime() }, { runAt });
  const lateMs: number[] = [];
  start(db.hf, (w) => {
    for (const kind of kinds)
      w.handle(kind, ({ payload }) => void lateMs.push(Date.now() - payload.dueAt));
    return w;
  });
  await until('they are due soon', () => Date.now() > runAt.getTime() - 500);
  const machine = watchMachine();
  await until('both ran', () => lateMs.length === kinds.length);
  await expectOnTime(lateMs, machine);
});

test('a failed job is tried again when it is due, also while another queue has a long line', async () => {
  const line = job<{ n: number }>('line', { queue: 'ledger' });
  const plain = job<{ n: number }>('plain', { retry: () => 1_000 });
  await db.hf.enqueueMany(
    Array.from({ length: 5_000 }, (_, n) => line.item({ n }, { partitionKey: `order:${n % 500}` })),
  );
  await db.hf.enqueue(plain, { n: 1 });
  const tries: number[] = [];
  let left = 5_000;
  const { worker } = start(
    db.hf,
    (w) =>
      w
        .handle(line, async () => {
          await new Promise((resolve) => setTimeout(resolve, 5));
          left--;
        })
        .handle(plain, () => {
          tries.push(performance.now());
          if (tries.length === 1) throw new Error('not yet');
        }),
    RARELY,
  );
  await until('it was tried again', () => tries.length === 2);
  expect(left).toBeGreaterThan(0);
  await worker.stop();
  const [first = 0, second = 0] = tries;
  expect(second - first).toBeGreaterThanOrEqual(1_000);
  expect(second - first).toBeLessThan(1_700);
});

test('the next job of a key starts when the one before has left it, however it did', async () => {
  const leaves = {
    completed: () => {},
    dead_letter: () => {
      throw new DeadLetter('never');
    },
    cancelled: () => {
      throw new Cancel('no more');
    },
    retried: (attempt: number) => {
      if (attempt === 1) throw new Error('not yet');
    },
    // Its first job is at work for long, and the others come meanwhile.
    occupied: () => finished,
  };
  let finish = () => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const kinds = Object.entries(leaves).map(([name, leave]) => {
    const kind = job<{ n: number }>(name, { queue: 'ledger', retry: () => 50 });
    const line = (from: number, to: number) =>
      [0, 1, 2, 3, 4].slice(from, to).map((n) => kind.item({ n }, { partitionKey: name }));
    return { name, kind, leave, line, ran: [] as number[] };
  });
  start(
    db.hf,
    (w) => {
      for (const { kind, leave, ran } of kinds) {
        w.handle(kind, ({ payload, attempt }) => {
          ran.push(payload.n);
          return leave(attempt);
        });
      }
      return w;
    },
    RARELY,
  );
  const occupied = kinds.at(-1);
  await db.hf.enqueueMany(occupied?.line(0, 1) ?? []);
  await until('the first runs', () => occupied?.ran.length === 1);
  await db.hf.enqueueMany(occupied?.line(1, 5) ?? []);
  const machine = watchMachine();
  const from = performance.now();
  await db.hf.enqueueMany(kinds.slice(0, -1).flatMap(({ line }) => line(0, 5)));
  finish();
  const tookMs: Record<string, number> = {};
  await until('all of them ran', () => {
    for (const { name, ran } of kinds)
      if (ran.at(-1) === 4) tookMs[name] ??= performance.now() - from;
    return Object.keys(tookMs).length === kinds.length;
  });
  // Five jobs, up to ten attempts, each of which is one claim and one settle.
  const slack = 10 * (await machine());
  for (const [name, ms] of Object.entries(tookMs)) expect(ms, name).toBeLessThan(1_000 + slack);
});

test('a key that was busy when many jobs came goes on with them at once', async () => {
  const step = job<{ n: number }>('step', { queue: 'ledger' });
  let finish = () => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const ran = new Set<string>();
  start(
    db.hf,
    (w) =>
      w.handle(step, ({ partitionKey: key, payload }) => {
        ran.add(`${key} ${payload.n}`);
        if (payload.n === 1) return finished;
      }),
    RARELY,
  );
  await asleep(1, 'ledger');
  // Quick ones first, so that runs of several jobs are asked for.
  await db.hf.enqueueMany(
    Array.from({ length: 50 }, (_, n) => step.item({ n: 0 }, { partitionKey: `quick:${n}` })),
  );
  await until('the quick ones ran', () => ran.size === 50);
  await db.hf.enqueue(step, { n: 1 }, { partitionKey: 'busy' });
  await until('it runs', () => ran.has('busy 1'));
  // So many that the hint does not name their buckets.
  await db.hf.enqueueMany([
    step.item({ n: 2 }, { partitionKey: 'busy' }),
    ...Array.from({ length: 200 }, (_, n) => step.item({ n: 2 }, { partitionKey: `other:${n}` })),
  ]);
  await until('the others ran', () => ran.size === 251);
  const machine = watchMachine();
  const from = performance.now();
  finish();
  await until('the next of the busy key ran', () => ran.has('busy 2'), { everyMs: 2 });
  const tookMs = performance.now() - from;
  expect(tookMs).toBeLessThan(2 * LATE_MS + 4 * (await machine()));
});

test('recovered jobs start at once, whoever of the fleet recovered them', async () => {
  const plain = job<{ n: number }>('plain');
  const ran = new Set<number>();
  await db.hf.enqueueMany(Array.from({ length: 20 }, (_, n) => plain.item({ n })));
  const { jobs } = await claimByTime(db.engine, 'somebody', {
    ...{ versions: { plain: 1 }, leaseMs: 3_600_000 },
  });
  expect(jobs).toHaveLength(20);
  const options = { ...RARELY, maintenance: '200ms' } as const;
  for (const _ of [1, 2, 3]) {
    start(db.hf, (w) => w.handle(plain, ({ payload }) => void ran.add(payload.n)), options);
  }
  await asleep(3);
  expect(ran.size).toBe(0);
  await db.rows(`UPDATE holdfast.inbox SET lease_expires_at = now()`);
  const from = performance.now();
  await until('all of them ran', () => ran.size === 20);
  expect(performance.now() - from).toBeLessThan(2_000);
});
