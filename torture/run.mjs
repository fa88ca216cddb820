// One run of a profile: an undisturbed phase that sets the measure, the faults, the healing, a full drain, the check.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { checkAll } from './check/index.mjs';
import { CALM, monotonicMs, openHistory, readHistories } from './history.mjs';
import { othersShare } from './machine.mjs';
import { runNemesis, scheduleOf } from './nemesis.mjs';
import { sqlUntil } from './server.mjs';
import { readState } from './state.mjs';
import {
  buildWorld,
  drain,
  drainRate,
  populate,
  STILL_MS,
  setRate,
  startSampler,
  tidied,
} from './world.mjs';

const PAGE_KB = 4;
/** Of what the fleet can do. */
const LOAD = 0.4;
/** After healing: twice the bound of the check, so that a late return is told from none. */
const AFTER_MS = 13_500;

/** Longer than any start; who is not up by then is missed by the checks. */
const START_MS = 30_000;

function rssMb(pid) {
  try {
    return (Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]) * PAGE_KB) / 1024;
  } catch {
    return 0;
  }
}

/**
 * @param {object} options
 * @param {import('./profiles.mjs').Profile & { name: string }} options.profile
 * @param {string} options.seed
 * @param {number} options.seconds of faults
 * @param {string} options.folder for the histories; deleted if nothing is wrong
 * @param {boolean} [options.keepHistories] not even then
 * @param {boolean} [options.keepsCrashing] jobs that take their process along do so after the healing, too
 * @param {string} options.dist the build that is under test
 * @param {string} [options.product] the file of it that the actors load; default: its ES modules
 * @param {(text: string) => void} [options.say]
 */
export async function run(options) {
  const { profile, seed, seconds, folder, dist, product, say = () => {} } = options;
  const {
    rate = 100,
    workers = 4,
    producers = 3,
    burst = 900,
    baselineMs = 8_000,
    everyMs = 2_500,
    drains = 3,
    afterMs = AFTER_MS,
  } = options;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const history = openHistory(folder, 'runner');
  history.record('run-options', 'note', { profile: profile.name, seed, seconds, rate, workers });
  const facts = { wallOffset: Date.now() - monotonicMs(), drainShare: options.drainShare ?? 0.7 };
  const world = await buildWorld({
    folder,
    dist,
    ...(product && { product }),
    history,
    makeServer: profile.makeServer,
    settings: profile.settings,
    sides: profile.sides,
    makeSchema: profile.makeSchema,
  });
  try {
    await profile.prepare?.(world, history, seed);
    await populate(world, {
      ...{ producers, workers, seed },
      workerConfig: profile.workerConfig,
      producerConfig: profile.producerConfig,
    });
    const sampler = startSampler(world, rssMb);
    const othersBefore = othersShare(world);
    facts.drainBefore = await bestDrain(world, { burst, drains });
    facts.othersBefore = othersBefore();
    // A load that the fleet carries with ease on this machine: what is missing later is missing for a reason.
    const offered = burst > 0 ? Math.min(rate, facts.drainBefore * LOAD) : rate;
    setRate(world, offered);
    await sleep(2_000);
    facts.baseline = await timed(() => sleep(baselineMs));
    facts.connectionsBefore = sampler.connections();
    say(
      `undisturbed: a backlog drains at ${facts.drainBefore.toFixed(0)} jobs/s; offered are ${offered.toFixed(0)}`,
    );
    const schedule = scheduleOf(seed, options.faults ?? profile.faults, seconds * 1000, everyMs);
    say(`${schedule.length} faults in ${seconds} s …`);
    let nemesis;
    facts.faults = await timed(async () => {
      setCrashing(world, true);
      const course = profile.course?.(world, { seed, seconds });
      nemesis = await runNemesis(world, schedule, history);
      await sleep(Math.max(0, seconds * 1000 - nemesis.tookMs));
      await course;
      setCrashing(world, false);
      // Those that wait would go on killing workers long after everything else is healed.
      if (!options.keepsCrashing) writeFileSync(join(folder, CALM), '');
      await nemesis.heal();
    });
    await profile.heal?.(world);
    await sqlUntil(world.server.url, 'SELECT 1');
    await everybodyUp(world);
    facts.healedAt = Date.now();
    history.record('healed', 'note', { wall: facts.healedAt });
    const othersHealed = othersShare(world);
    await sleep(afterMs);
    facts.othersHealed = othersHealed();
    facts.loadUntil = Date.now();
    setRate(world, 0);
    await sleep(500);
    facts.left = await drain(world, options.stillMs ?? STILL_MS, options.drainMs);
    facts.connectionsAfter = sampler.connections();
    say(facts.left.length === 0 ? 'drained' : `${facts.left.length} jobs are left`);
    facts.drainAfter = 0;
    if (facts.left.length === 0) {
      const othersAfter = othersShare(world);
      facts.drainAfter = await bestDrain(world, { burst, drains, enough: facts.drainBefore });
      facts.othersAfter = othersAfter();
      facts.left = await drain(world, options.stillMs ?? STILL_MS);
    }
    for (const slot of world.fleet.producers) {
      slot.leaving = true;
      slot.tell({ do: 'stop' });
    }
    await Promise.race([
      Promise.all(world.fleet.producers.map((slot) => slot.ended())),
      sleep(20_000),
    ]);
    // Rounds of maintenance clear what the dead left behind.
    if (facts.left.length === 0) await tidied(world);
    await sampler.stop();
    facts.maxRssMb = Math.round(
      Math.max(...sampler.samples.flatMap(({ rss }) => Object.values(rss))),
    );
    facts.deadlocks = sampler.deadlocks();
    facts.maxConnections = Math.max(...sampler.samples.map(({ connections }) => connections ?? 0));
    // What is still at work must not go on while its state is read.
    if (facts.left.length > 0) await world.fleet.stop();
    const state = await readState(world);
    await world.fleet.stop();
    return verdict({ folder, history, state, facts, keep: options.keepHistories });
  } finally {
    await world.fleet.stop();
    await profile.close?.(world);
    await world.server.stop();
    history.close();
  }
}

function verdict({ folder, history, state, facts, keep }) {
  history.record('facts', 'note', facts);
  const lines = readHistories(folder);
  const result = checkAll({ history: lines, state, run: facts });
  if (result.violations.length === 0 && !keep) rmSync(folder, { recursive: true, force: true });
  else {
    writeFileSync(join(folder, 'violations.txt'), `${result.violations.join('\n')}\n`);
    writeFileSync(join(folder, 'state.json'), JSON.stringify({ state, run: facts }));
  }
  return result;
}

/**
 * Before and after the faults in the same way. The machine has other things to do now and then, and the first one finds
 * processes that have just started; a fleet that is slow itself is slow each time.
 */
async function bestDrain(world, { burst, drains, enough = Number.POSITIVE_INFINITY }) {
  let best = burst > 0 ? 0 : Number.NaN;
  for (let turn = 0; turn < drains && burst > 0 && best < enough; turn++)
    best = Math.max(best, await drainRate(world, burst));
  return best;
}

/** A process that was killed last is starting, and on a busy machine that takes seconds: it belongs to the fault. */
async function everybodyUp({ fleet }) {
  const until = Date.now() + START_MS;
  while (fleet.slots.some(({ up }) => !up) && Date.now() < until) await sleep(50);
}

function setCrashing(world, on) {
  for (const slot of world.fleet.producers) slot.tell({ do: 'crash', on }, { crashing: on });
}

async function timed(work) {
  const from = Date.now();
  await work();
  return { from, to: Date.now() };
}
