/** The simulation finds bugs: each of these is planted into a real statement, and found within a stated number of schedules. */
import { beforeAll, expect, test, vi } from 'vitest';
import { BUGS, type Bug } from './support/bugs.js';
import { planOf } from './support/plan.js';
import { Server } from './support/server.js';
import { type Failure, report, shrink } from './support/shrink.js';
import { simulate } from './support/simulate.js';

vi.mock('pg', () => import('./support/pg.js'));
vi.mock('node:worker_threads', () => import('./support/thread.js'));
vi.mock('node:timers/promises', () => import('./support/timers.js'));
vi.mock('node:os', async (original) => ({
  ...(await original<object>()),
  hostname: (await import('./support/modules.js')).hostname,
}));
vi.mock('node:crypto', async (original) => ({
  ...(await original<object>()),
  randomBytes: (await import('./support/modules.js')).randomBytes,
}));

let server: Server;
beforeAll(async () => {
  server = await Server.open();
}, 120_000);

/** The first seed that fails. */
async function find({ rewrite, within, from = 1, deaf = false }: Bug): Promise<Failure | null> {
  for (let seed = from; seed < from + within; seed++) {
    const plan = { ...planOf(seed), deaf };
    const outcome = await simulate(server, plan, rewrite);
    // A text that Postgres refuses is not the bug that was meant.
    expect(outcome.violations.filter((text) => /was refused/.test(text))).toEqual([]);
    if (outcome.violations.length > 0) return { plan, outcome };
  }
  return null;
}

test.each(BUGS)(
  'finds $name',
  async (bug) => {
    const found = await find(bug);
    if (!found) expect.fail(`not found within ${bug.within} schedules`);
    const smallest = await shrink(server, found, bug.rewrite);
    console.log(`${bug.name}: found by schedule ${found.plan.seed}\n${report(smallest)}`);
    expect(smallest.plan.faults.length).toBeLessThanOrEqual(found.plan.faults.length);
    expect((await simulate(server, smallest.plan, bug.rewrite)).trace).toBe(smallest.outcome.trace);
  },
  600_000,
);
