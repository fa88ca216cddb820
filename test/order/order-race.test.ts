/**
 * Many claimers at once over few keys, with different views of who owns what, with crashes, zombies,
 * retries, releases and burials: no key is ever in two hands, and its jobs are completed in order. Of keys
 * whose enqueues overlap less is promised, and asked: every job is done, and once.
 *
 * The database is the witness. An observer looks at it all the time, and what is completed is read from
 * the archive. A worker that crashes goes on as a zombie under its old id, and is in the list of dead
 * workers before anybody takes its jobs.
 */
import { beforeEach, expect, test } from 'vitest';
import { stretchesOf } from '../../packages/holdfast/src/claim/key/stretches.js';
import type { ClaimedJob } from '../../packages/holdfast/src/claim/take.js';
import { job } from '../../packages/holdfast/src/index.js';
import { bucketOf } from '../../packages/holdfast/src/job/key.js';
import { recover } from '../../packages/holdfast/src/maintenance/recover.js';
import { complete } from '../../packages/holdfast/src/settle/complete.js';
import { deadLetter } from '../../packages/holdfast/src/settle/dead-letter.js';
import { fail } from '../../packages/holdfast/src/settle/fail.js';
import { release } from '../../packages/holdfast/src/settle/release.js';
import { claimSuspected, heldOf } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { long } from '../support/long.js';
import { ALL_KEYS, claimInOrder, EVERY_BUCKET } from '../support/ordered.js';
import { until } from '../support/until.js';

const db = testDatabase();
const RACE_MS = long(2_000, 15_000);
/** On a slow machine it goes on until there was much to do, but not for ever. */
const LONGEST_MS = 20_000;
const MUCH = 200;
const WORKERS = 8;
/** Producers of the first ones wait for each enqueue; those of the others enqueue at the same time. */
const ORDERLY = ['a', 'b', 'c'];
const CROWDED = ['x', 'y'];
const step = job<{ n: number }>('step', { maxAttempts: 1_000 });
const ERROR = { error: 'Error: no paper', summary: 'no paper' };

const chance = (share: number) => Math.random() < share;
const any = <Value>(values: readonly Value[]) =>
  values[Math.floor(Math.random() * values.length)] as Value;

/** The whole queue, one half of it, one key, or everything but one key: whatever a ring may say. */
function someView() {
  const bucket = bucketOf(any([...ORDERLY, ...CROWDED]));
  const before = EVERY_BUCKET.slice(0, bucket + 1);
  const behind = EVERY_BUCKET.slice(bucket + 1);
  return any([
    ALL_KEYS,
    stretchesOf(before),
    stretchesOf([bucket]),
    [...stretchesOf(behind), ...stretchesOf(before)],
  ]);
}

class Race {
  readonly begun = Date.now();
  readonly dead: string[] = [];
  readonly overtaken: unknown[] = [];
  enqueued = 0;
  #names = 0;

  get on(): boolean {
    const ms = Date.now() - this.begun;
    const enough = this.enqueued > MUCH && this.dead.length > 0;
    return ms < (enough ? RACE_MS : LONGEST_MS);
  }

  newName(): string {
    return `worker-${++this.#names}`;
  }

  async produce(key: string): Promise<void> {
    for (let n = 0; this.on; n++) {
      const count = any([1, 1, 2, 5]);
      await db.hf.enqueueMany(
        Array.from({ length: count }, (_, more) =>
          step.item({ n: n * 10 + more }, { partitionKey: key }),
        ),
      );
      this.enqueued += count;
      // Neither an empty queue nor an endless one.
      await until('there is room', async () => !this.on || (await waiting()) < 200);
    }
  }

  /** A worker's life; when it crashes, a zombie goes on with what it held. */
  async work(lives: number, on: () => boolean | Promise<boolean>): Promise<void> {
    const me = this.newName();
    const zombies: Promise<unknown>[] = [];
    while (await on()) {
      const { jobs } = chance(0.8)
        ? await claimInOrder(db.engine, me, {
            ...{ stretches: someView(), limit: any([1, 3, 10]), run: any([1, 2, 5]) },
            maxRows: any([5, 100]),
          })
        : await claimSuspected(db.engine, me);
      await this.#check(jobs);
      if (jobs.length > 0 && lives > 0 && chance(0.02)) {
        await db.rows("INSERT INTO holdfast.workers (id, status) VALUES ($1, 'dead')", [me]);
        this.dead.push(me);
        zombies.push(this.#settle(me, jobs));
        await Promise.all([...zombies, this.work(lives - 1, on)]);
        return;
      }
      await this.#settle(me, jobs);
    }
  }

  /** What was claimed is at the head of its key, and stays there: what is gone never comes back. */
  async #check(jobs: readonly ClaimedJob[]): Promise<void> {
    const seen = new Set<string>();
    for (const { partitionKey: key, cursorPosition } of jobs) {
      if (seen.has(key) || !ORDERLY.includes(key)) continue;
      seen.add(key);
      const earlier = await db.rows(
        `SELECT partition_key, payload, status FROM holdfast.inbox
         WHERE partition_key = $1 AND position < $2 AND NOT parked`,
        [key, cursorPosition],
      );
      this.overtaken.push(...earlier);
    }
  }

  /** Each run in its order: all that succeeded are completed together, anything else ends the run. */
  async #settle(me: string, jobs: readonly ClaimedJob[]): Promise<void> {
    const runs = new Map<string, ClaimedJob[]>();
    for (const one of jobs)
      runs.set(one.partitionKey, [...(runs.get(one.partitionKey) ?? []), one]);
    for (const run of runs.values()) {
      if (chance(0.2)) await new Promise((resolve) => setTimeout(resolve, Math.random() * 5));
      const good = chance(0.6) ? run.length : Math.floor(Math.random() * run.length);
      const done = run
        .slice(0, good)
        .map((one, n) => ({ ...heldOf(one), after: run[n - 1]?.id ?? null }));
      if (done.length > 0 && (await complete(db.engine, INBOX, me, done)).length < good) continue;
      const bad = run[good] && heldOf(run[good]);
      const rest = run.slice(good + 1).map(heldOf);
      if (rest.length > 0 && chance(0.5)) await release(db.engine, INBOX, me, rest.splice(0));
      if (bad && chance(0.3)) await deadLetter(db.engine, INBOX, me, [{ ...bad, ...ERROR }]);
      else if (bad && chance(0.5)) await release(db.engine, INBOX, me, [bad]);
      else if (bad) await fail(db.engine, INBOX, me, [{ ...bad, ...ERROR, delayMs: any([0, 20]) }]);
      if (rest.length > 0) await release(db.engine, INBOX, me, rest);
    }
  }

  async maintain(): Promise<void> {
    while (this.on) {
      await recover(db.engine, INBOX, { limit: 5, recoverer: 'nobody' });
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** Orderly keys of which two claims hold jobs at the same moment, as the database sees it. */
  async observe(): Promise<unknown[]> {
    while (this.on) {
      const shared = await db.rows(
        `SELECT i.partition_key, array_agg(i.claimed_by || ' ' || (i.payload ->> 'n')) AS held
         FROM holdfast.inbox AS i
         WHERE i.status = 'processing' AND NOT EXISTS (SELECT FROM holdfast.workers AS w WHERE w.id = i.claimed_by)
           AND i.partition_key = ANY ($1)
         GROUP BY i.partition_key HAVING count(DISTINCT (i.claimed_by, i.claimed_at)) > 1`,
        [ORDERLY],
      );
      if (shared.length > 0) return shared;
    }
    return [];
  }
}

const waiting = async () =>
  (
    await db.rows<{ n: number }>(
      `SELECT count(*)::int AS n FROM holdfast.inbox WHERE status <> 'dead_letter'`,
    )
  )[0]?.n ?? 0;

beforeEach(() => db.hf.configureQueue('inbox', { ordering: 'key' }));

test('no orderly key is in two hands, and jobs are completed in order, whatever happens to their workers', async () => {
  const race = new Race();
  const producers = [...ORDERLY, ...CROWDED, ...CROWDED].map((key) => race.produce(key));
  const workers = Array.from({ length: WORKERS }, () => race.work(5, () => race.on));
  const [shared] = await Promise.all([
    race.observe(),
    race.maintain(),
    ...producers,
    ...workers,
  ] as const);
  expect(shared).toEqual([]);
  expect(race.overtaken).toEqual([]);

  // Everything that is left can still be claimed and completed, by one that comes later.
  while ((await recover(db.engine, INBOX, { limit: 100, recoverer: 'nobody' })).length > 0);
  await race.work(0, async () => (await waiting()) > 0);
  const outOfOrder = await db.rows(
    `SELECT * FROM (
       SELECT partition_key, completed_at, (payload ->> 'n')::int AS n,
         max((payload ->> 'n')::int) OVER (PARTITION BY partition_key ORDER BY completed_at
           RANGE BETWEEN UNBOUNDED PRECEDING AND '1 microsecond' PRECEDING) AS highest_before
       FROM holdfast.inbox_archive WHERE partition_key = ANY ($1)
     ) AS done WHERE n < highest_before`,
    [ORDERLY],
  );
  expect(outOfOrder).toEqual([]);
  const [ended] = await db.rows<{ n: number }>(
    `SELECT (SELECT count(*) FROM holdfast.inbox_archive)::int
       + (SELECT count(*) FROM holdfast.inbox WHERE parked)::int AS n`,
  );
  expect(ended?.n).toBe(race.enqueued);
  // It was a race: there was much to do, and there were crashes.
  expect(race.enqueued).toBeGreaterThan(MUCH);
  expect(race.dead.length).toBeGreaterThan(0);
});
