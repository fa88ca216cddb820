/**
 * Runs one schedule, from empty tables until every job has ended, and checks it.
 *
 * A schedule ends early when all jobs are in the archive and nothing planned is left. It fails when that takes
 * longer than `LATEST_MS` of virtual time after the last fault that was planned.
 */
import { Clock } from '../../../packages/lab/src/simulation/clock.js';
import { type MessageFault, Network } from '../../../packages/lab/src/simulation/network.js';
import type { Rewrite, Server } from '../../../packages/lab/src/simulation/server.js';
import { enter } from '../../../packages/lab/src/simulation/world.js';
import { Fleet } from './fleet.js';
import { History } from './history.js';
import { violations } from './invariants.js';
import { isProcessFault, type Plan } from './plan.js';

/** Recovery by silence takes a TTL and two rounds of maintenance; a lost answer 15 s of mistrust on top. */
export const LATEST_MS = 60_000;
/** A simulated minute takes about 5,000. */
const MOST_STEPS = 100_000;
const LOOK_MS = 200;
/** So long after the last job zombies may still try something. */
const AFTER_MS = 500;

export interface Outcome {
  readonly trace: string;
  readonly violations: readonly string[];
  readonly statements: number;
  /** How many faults took place. */
  readonly faults: number;
  readonly virtualMs: number;
}

export const asItIs: Rewrite = (text) => text;

export async function simulate(server: Server, plan: Plan, rewrite = asItIs): Promise<Outcome> {
  const clock = new Clock();
  const history = new History(clock, plan);
  const messages = plan.faults.filter((fault): fault is MessageFault => !isProcessFault(fault));
  const network = new Network(messages, plan.deaf === true, (text) => history.say(text));
  const fleet = new Fleet(plan, clock, server, history);
  server.begin(clock, rewrite);
  enter({
    clock,
    server,
    network,
    kill: (owner) => fleet.kill(owner.name, owner, 1_000),
    note: (owner, what, params, answer, sentAt) =>
      history.statement(owner, what, params, answer, sentAt),
  });
  const restore = clock.install();
  let over = 0;
  try {
    fleet.start();
    const processes = plan.faults.filter(isProcessFault);
    for (const fault of processes) fleet.strike(fault);
    over = await run(server, plan, clock, fleet);
    const struck = network.struck + fleet.struck;
    clock.now = over;
    return {
      violations: violations(server, plan, history),
      trace: history.lines.join('\n'),
      statements: server.executed,
      faults: struck,
      virtualMs: over,
    };
  } finally {
    restore();
    enter(null);
  }
}

/** Until all jobs have ended. Returns when that was. */
async function run(server: Server, plan: Plan, clock: Clock, fleet: Fleet): Promise<number> {
  const ends = plan.faults.map((fault) =>
    isProcessFault(fault) ? fault.atMs + fault.ms : fault.ms,
  );
  const planned = Math.max(...ends, ...plan.jobs.map(({ atMs }) => atMs));
  const begun = plan.faults.map((fault) => (isProcessFault(fault) ? fault.atMs : 0));
  let lookAt = Math.max(...begun, ...plan.jobs.map(({ atMs }) => atMs)) + AFTER_MS;
  for (let steps = 0; clock.now < planned + LATEST_MS && (await clock.step()); steps++) {
    if (steps > MOST_STEPS) throw new Error(`seed ${plan.seed} comes to no end at ${clock.now} ms`);
    if (clock.now < lookAt || clock.now < fleet.quietAt + AFTER_MS) continue;
    lookAt = clock.now + LOOK_MS;
    if (server.rows(`SELECT FROM holdfast.${plan.queue} LIMIT 1`).length === 0) break;
  }
  return clock.now;
}
