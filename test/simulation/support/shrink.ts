/** A failing schedule made small: faults and jobs are left out, one at a time, while it still fails. */

import type { Rewrite, Server } from '../../../packages/lab/src/simulation/server.js';
import { describePlan, type Plan, planOf } from './plan.js';
import { type Outcome, simulate } from './simulate.js';

export interface Failure {
  readonly plan: Plan;
  readonly outcome: Outcome;
}

export async function shrink(server: Server, failure: Failure, rewrite: Rewrite): Promise<Failure> {
  let best = failure;
  for (let again = true; again; ) {
    again = false;
    for (const smaller of smallerPlans(best.plan)) {
      const outcome = await simulate(server, smaller, rewrite);
      if (outcome.violations.length === 0) continue;
      best = { plan: smaller, outcome };
      again = true;
      break;
    }
  }
  return best;
}

function smallerPlans(plan: Plan): Plan[] {
  const without = <Value>(values: readonly Value[]) =>
    values.map((gone) => values.filter((value) => value !== gone));
  return [
    ...without(plan.faults).map((faults) => ({ ...plan, faults })),
    ...(plan.jobs.length > 1 ? without(plan.jobs).map((jobs) => ({ ...plan, jobs })) : []),
  ];
}

const FILE = 'test/simulation/schedules.test.ts';

/** How to see it again. */
export function commandOf({ seed, faults, jobs }: Plan): string {
  const whole = planOf(seed);
  const places = (all: readonly unknown[], kept: readonly unknown[]) =>
    all.flatMap((one, at) => (kept.some((other) => same(one, other)) ? [at] : [])).join(',');
  const parts = [
    `SIM_FAULTS=${places(whole.faults, faults)}`,
    `SIM_JOBS=${places(whole.jobs, jobs)}`,
  ];
  return `SIM_SEED=${seed} ${parts.join(' ')} npx vitest run ${FILE}`;
}

const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);

/** The plan that the environment of that command names. */
export function planFrom(env: NodeJS.ProcessEnv): Plan {
  const plan = planOf(Number(env.SIM_SEED));
  const keep = <Value>(values: readonly Value[], list: string | undefined) =>
    list === undefined ? values : values.filter((_, at) => list.split(',').includes(String(at)));
  return {
    ...plan,
    faults: keep(plan.faults, env.SIM_FAULTS),
    jobs: keep(plan.jobs, env.SIM_JOBS),
  };
}

export function report({ plan, outcome }: Failure): string {
  return [
    `Seed ${plan.seed} fails. The smallest schedule that does:`,
    describePlan(plan),
    ...outcome.violations.map((text) => `  violated: ${text}`),
    `Again, with the whole trace: ${commandOf(plan)}`,
  ].join('\n');
}
