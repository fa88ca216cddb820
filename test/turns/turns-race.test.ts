/**
 * Many claimers at once over few keys and groups, each of which believes that all buckets are its own, with crashes,
 * zombies, failures, releases and suspects: no snapshot of the queue ever shows more of a key, or of a group, than
 * may run; and when all is over, as many may run as before.
 */
import { expect, test } from 'vitest';
import type { ClaimedJob } from '../../packages/holdfast/src/claim/take.js';
import { job } from '../../packages/holdfast/src/index.js';
import { recover } from '../../packages/holdfast/src/maintenance/recover.js';
import { configure } from '../../packages/holdfast/src/operate/queue.js';
import { complete } from '../../packages/holdfast/src/settle/complete.js';
import { fail } from '../../packages/holdfast/src/settle/fail.js';
import { release } from '../../packages/holdfast/src/settle/release.js';
import { claimSuspected, heldOf } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { long } from '../support/long.js';
import { claimInTurns } from '../support/turns.js';
import { until } from '../support/until.js';

const db = testDatabase();
const RACE_MS = long(1_500, 60_000);
/** On a slow machine it goes on until there was much to do, but not for ever. */
const LONGEST_MS = long(20_000, 120_000);
const MUCH = 50;
const WORKERS = 8;
const PER_KEY = 2;
const PER_GROUP = 3;
const KEYS = ['a', 'b', 'c', 'd', 'e', 'f'];
const GROUPS = ['g', 'h', undefined];
const step = job<{ n: number }>('step', { maxAttempts: 1_000 });
const ERROR = { error: 'Error: no paper', summary: 'no paper' };
const chance = (share: number) => Math.random() < share;
const any = <Value>(values: readonly Value[]) =>
  values[Math.floor(Math.random() * values.length)] as Value;

const TOO_MANY = `
SELECT 'key' AS what, coalesce(group_key, '') || '/' || partition_key AS name, count(*)::int AS held
FROM holdfast.inbox WHERE status = 'processing' GROUP BY 2 HAVING count(*) > ${PER_KEY}
UNION ALL
SELECT 'group', group_key, count(*)::int
FROM holdfast.inbox WHERE status = 'processing' AND group_key IS NOT NULL GROUP BY 2 HAVING count(*) > ${PER_GROUP}`;

class Race {
  readonly begun = Date.now();
  readonly broken: unknown[] = [];
  claims = 0;
  crashes = 0;
  #names = 0;

  get on(): boolean {
    const enough = this.claims > MUCH && this.crashes > 0;
    const ms = Date.now() - this.begun;
    return this.broken.length === 0 && ms < (enough ? RACE_MS : LONGEST_MS);
  }

  async work(): Promise<void> {
    let me = `worker-${++this.#names}`;
    const zombies: Promise<void>[] = [];
    while (this.on) {
      const { jobs } = chance(0.85)
        ? await claimInTurns(db.engine, me, {
            limit: any([1, 3, 10]),
            again: chance(0.5),
            maxKeys: any([2, 100]),
          })
        : await claimSuspected(db.engine, me);
      if (jobs.length > 0) this.claims++;
      if (jobs.length > 0 && chance(0.05)) {
        await db.rows("INSERT INTO holdfast.workers (id, status) VALUES ($1, 'dead')", [me]);
        this.crashes++;
        zombies.push(this.#settle(me, jobs));
        me = `worker-${++this.#names}`;
      } else await this.#settle(me, jobs);
    }
    await Promise.all(zombies);
  }

  async #settle(me: string, jobs: readonly ClaimedJob[]): Promise<void> {
    for (const one of jobs) {
      const held = heldOf(one);
      const how = Math.random();
      if (how < 0.6) await complete(db.engine, INBOX, me, [held]);
      else if (how < 0.8) await release(db.engine, INBOX, me, [held]);
      else await fail(db.engine, INBOX, me, [{ ...held, ...ERROR, delayMs: any([0, 5]) }]);
    }
  }

  async observe(): Promise<void> {
    while (this.on) this.broken.push(...(await db.rows(TOO_MANY)));
  }

  async recoverAll(): Promise<void> {
    while (this.on) {
      await recover(db.engine, INBOX, { limit: 100, recoverer: 'somebody' });
      await db.rows('SELECT pg_sleep(0.01)');
    }
  }

  async produce(): Promise<void> {
    while (this.on) {
      await db.hf.enqueueMany(
        Array.from({ length: 20 }, (_, n) => {
          const group = any(GROUPS);
          return step.item({ n }, { partitionKey: any(KEYS), ...(group && { group }) });
        }),
      );
      await until('there is room', async () => !this.on || (await waiting()) < 200, { everyMs: 5 });
    }
  }
}

async function waiting(): Promise<number> {
  const [row] = await db.rows<{ n: number }>('SELECT count(*)::int AS n FROM holdfast.inbox');
  return row?.n as number;
}

test(
  'eight claimers of the same buckets never hold too many of a key or a group, and none is lost',
  async () => {
    await configure(db.plain, INBOX, { perKey: PER_KEY, perGroup: PER_GROUP, fair: true });
    const race = new Race();
    await Promise.all([
      race.produce(),
      race.observe(),
      race.recoverAll(),
      ...Array.from({ length: WORKERS }, () => race.work()),
    ]);
    expect(race.broken).toEqual([]);
    expect(race.claims).toBeGreaterThan(MUCH);
    expect(race.crashes).toBeGreaterThan(0);

    // Nothing of what vanished is counted for ever: the limits can be reached in full.
    await db.rows("UPDATE holdfast.inbox SET lease_expires_at = now() WHERE status = 'processing'");
    await until('all are recovered', async () => {
      await recover(db.engine, INBOX, { limit: 1_000, recoverer: 'somebody' });
      const held = await db.rows("SELECT FROM holdfast.inbox WHERE status = 'processing'");
      return held.length === 0;
    });
    await db.rows(
      'UPDATE holdfast.inbox SET crashes = 0, available_at = least(available_at, now())',
    );
    await db.hf.enqueueMany(
      ['k', 'l'].flatMap((key) =>
        Array.from({ length: 5 }, (_, n) => step.item({ n }, { partitionKey: key, group: 'g' })),
      ),
    );
    await claimInTurns(db.engine, 'last');
    const [held] = await db.rows<{ n: number }>(
      "SELECT count(*)::int AS n FROM holdfast.inbox WHERE status = 'processing' AND group_key = 'g'",
    );
    expect(held?.n).toBe(PER_GROUP);
  },
  LONGEST_MS + 40_000,
);
