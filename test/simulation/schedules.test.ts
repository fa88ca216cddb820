/**
 * Deterministic simulation: the real worker and the real statements, on PGlite, with virtual time, timers, chance
 * and network. Each seed is a schedule of a small fleet with faults of its own. And the simulation finds bugs: each
 * of support/bugs.ts is planted into a real statement, and found within a stated number of schedules.
 *
 * It runs SIM_SCHEDULES of them (default 30: about 5 s of one core; each takes some 90 statements on PGlite,
 * which are most of the time), from the seed SIM_FROM on, and says what they were. `npm run test:long` runs more.
 * SIM_SEED runs one, and prints its trace. Transactions of handlers are not simulated: PGlite has one session, so
 * an open transaction stops all others.
 */
import { beforeAll, expect, test, vi } from 'vitest';
import type { Server } from '../../packages/lab/src/simulation/server.js';
import { openBuiltServer } from '../support/lab-server.js';
import { long } from '../support/long.js';
import { loaded } from '../support/simulated-threads.js';
import { BUGS, type Bug } from './support/bugs.js';
import { describePlan, planOf } from './support/plan.js';
import { type Failure, planFrom, report, shrink } from './support/shrink.js';
import { asItIs, simulate } from './support/simulate.js';

vi.mock('pg', () => import('../../packages/lab/src/simulation/pg.js'));
vi.mock('node:worker_threads', () => import('../support/simulated-threads.js'));
vi.mock('node:timers/promises', () => import('../../packages/lab/src/simulation/timers.js'));
vi.mock('node:os', async (original) => ({
  ...(await original<object>()),
  hostname: (await import('../../packages/lab/src/simulation/modules.js')).hostname,
}));
vi.mock('node:crypto', async (original) => ({
  ...(await original<object>()),
  randomBytes: (await import('../../packages/lab/src/simulation/modules.js')).randomBytes,
}));

const { env } = process;
const SCHEDULES = Number(env.SIM_SCHEDULES ?? long(16, 1_000));
const FROM = Number(env.SIM_FROM ?? 1);
/** The bug whose schedule is shrunk in every run. */
const SHRUNK = 'a claim that takes what a live owner holds';
/** Found after many schedules, so only in full. */
const LATE = /^a death that is declared|^a cursor that is never/;

let server: Server;
beforeAll(async () => {
  await loaded;
  server = await openBuiltServer();
}, 120_000);

if (env.SIM_SEED) {
  test('the schedule of SIM_SEED keeps every promise', async () => {
    const plan = planFrom(env);
    const outcome = await simulate(server, plan);
    console.log(`${describePlan(plan)}\n${outcome.trace}\n${outcome.violations.join('\n')}`);
    expect(outcome.violations).toEqual([]);
  });
} else {
  test(
    'every schedule keeps every promise',
    async () => {
      const from = process.cpuUsage();
      const sum = { schedules: 0, faults: 0, statements: 0, virtualMs: 0, faultless: 0 };
      for (let seed = FROM; sum.schedules < SCHEDULES; seed++) {
        const plan = planOf(seed);
        const outcome = await simulate(server, plan);
        if (outcome.violations.length > 0) {
          expect.fail(report(await shrink(server, { plan, outcome }, asItIs)));
        }
        // A schedule counts only if a fault took place.
        if (outcome.faults === 0) sum.faultless++;
        else sum.schedules++;
        sum.faults += outcome.faults;
        sum.statements += outcome.statements;
        sum.virtualMs += outcome.virtualMs;
      }
      const cpuMs = process.cpuUsage(from).user / 1_000 / SCHEDULES;
      const hours = (sum.virtualMs / 3_600_000).toFixed(2);
      console.log(
        `${sum.schedules} schedules, ${cpuMs.toFixed(0)} ms of CPU each: ${sum.faults} faults, ${sum.statements} statements, ` +
          `${hours} h of virtual time; ${sum.faultless} without a fault are not counted`,
      );
    },
    60_000 + SCHEDULES * 10_000,
  );

  test('the same seed gives the same trace, byte for byte', async () => {
    const seeds = Array.from({ length: 5 }, (_, n) => FROM + 7 * n);
    const traceOf = async (seed: number) => (await simulate(server, planOf(seed))).trace;
    const first: string[] = [];
    for (const seed of seeds) first.push(await traceOf(seed));
    for (const [at, seed] of seeds.entries()) expect(await traceOf(seed)).toBe(first[at]);
    expect(new Set(first).size).toBe(seeds.length);
  }, 300_000);
  /** The first seed that fails. */
  const find = async ({ rewrite, within, from, deaf = false }: Bug): Promise<Failure | null> => {
    for (let seed = from; seed < from + within; seed++) {
      const plan = { ...planOf(seed), deaf };
      const outcome = await simulate(server, plan, rewrite);
      // A text that Postgres refuses is not the bug that was meant.
      expect(outcome.violations.filter((text) => /was refused/.test(text))).toEqual([]);
      if (outcome.violations.length > 0) return { plan, outcome };
    }
    return null;
  };

  test.each(BUGS.filter(({ name }) => long(!LATE.test(name), true)))(
    'finds $name',
    async (bug) => {
      const found = await find(bug);
      if (!found) expect.fail(`not found within ${bug.within} schedules`);
      console.log(`${bug.name}: found by schedule ${found.plan.seed}`);
      // Some schedules take long to shrink.
      if (bug.name !== SHRUNK && !long(false, true)) return;
      const smallest = await shrink(server, found, bug.rewrite);
      console.log(report(smallest));
      const { length } = smallest.plan.faults;
      expect(length).toBeLessThanOrEqual(found.plan.faults.length);
      const again = await simulate(server, smallest.plan, bug.rewrite);
      expect(again.trace).toBe(smallest.outcome.trace);
    },
    600_000,
  );
}
