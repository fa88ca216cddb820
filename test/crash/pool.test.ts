/**
 * A process with a pool of its own outlives the loss of its connections, whoever has a client in hand when
 * it breaks, and what it was told is enqueued is there.
 */
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { Child, QUICK } from '../support/child.js';
import { type Ground, ground } from '../support/ground.js';
import { long } from '../support/long.js';
import { until } from '../support/until.js';

const CUTS = long(10, 50);
/** How much is accepted between two cuts: every cut hits a process in full swing. */
const BETWEEN = 30;

/** Terminates every backend of the database but its own. */
async function cutter(url: string): Promise<() => Promise<void>> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  onTestFinished(() => client.end());
  return async () => {
    await client.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE datname = current_database() AND pid <> pg_backend_pid()`,
    );
  };
}

async function cutAgainAndAgain(db: Ground, child: Child): Promise<void> {
  const cut = await cutter(db.url);
  for (let cuts = 0; cuts <= CUTS; cuts++) {
    const before = child.count('accepted');
    await until(
      `accepted jobs after ${cuts} cuts`,
      () => {
        if (child.exit) throw new Error(`after ${cuts} cuts ${child.describe()}`);
        return child.count('accepted') >= before + BETWEEN;
      },
      { everyMs: 1 },
    );
    if (cuts < CUTS) await cut();
  }
}

test.each(long(['handler'], ['enqueue', 'transaction', 'handler']))(
  'a process with its own pool outlives terminated backends: %s',
  async (mode) => {
    const db = await ground();
    const child = new Child('pool-user', { url: db.url, mode, options: QUICK });
    await cutAgainAndAgain(db, child);
    child.tell({ do: 'stop' });
    expect(await child.exited, child.describe()).toEqual({ code: 0, signal: null });

    // The cuts were felt.
    expect(child.count('error')).toBeGreaterThan(0);
    const ids = child.messages.flatMap(({ kind, keys }) =>
      kind === 'accepted' ? keys : [],
    ) as string[];
    const lost = await db.rows(
      `SELECT id FROM unnest($1::uuid[]) AS id
       WHERE NOT EXISTS (SELECT FROM holdfast.inbox AS i WHERE i.id = id.id)
         AND NOT EXISTS (SELECT FROM holdfast.inbox_archive AS a WHERE a.id = id.id)`,
      [ids],
    );
    expect(lost).toEqual([]);
    const unlike = await db.rows(
      `SELECT job_id FROM effects GROUP BY job_id HAVING count(*) > 1
       UNION ALL
       (SELECT id FROM holdfast.inbox_archive EXCEPT ALL SELECT job_id FROM effects)
       UNION ALL
       (SELECT job_id FROM effects EXCEPT ALL SELECT id FROM holdfast.inbox_archive)`,
    );
    expect(unlike).toEqual([]);
  },
  120_000,
);
