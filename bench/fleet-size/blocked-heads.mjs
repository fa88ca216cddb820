// Row 3. A block of due jobs that nobody may run stands before all others: of a paused type, of one
// that nobody handles, of one at its limit, of a version that the workers do not know. Other jobs of
// the queue start as in an empty one, also one whose transaction commits late. The empty queue stands
// beside it in the same database, with a worker of its own, and gets the same jobs at the same time.
import { job } from '../../packages/holdfast/dist/index.js';
import { became, clock, wait } from '../clock.mjs';
import { vacuum } from '../databases.mjs';
import { atMost, seconds as inSeconds, inTime, ratio } from './figures.mjs';
import { killWorkers, startsOf, task } from './scene.mjs';

const START_GOAL = 1.5;
const LATE_GOAL_MS = 2_000;
const OPEN_MS = 3_000;
/** The usual claim; and the dearest beside that of the control: the first claim of a session reads the catalog. */
const BUFFERS_GOAL = 300;
const DEAREST_GOAL = 1.5;
const PER_SECOND = 20;
/** Claims for each job that is offered: a worker that asks for what it may not run asks without end. */
const CLAIMS_GOAL = 4;
const beside = job('beside', { queue: 'beside' });

/** What is filled in, and what the workers handle beside `task`. */
const BLOCKS = {
  paused: { types: [{ type: 'block' }], prepare: ({ hf }) => hf.pause('inbox', { type: 'block' }) },
  unhandled: {},
  full: {
    types: [{ type: 'block', limit: { concurrency: 1 } }],
    first: { n: 'first', ms: -1 },
  },
  rate: { types: [{ type: 'block', limit: { rate: { limit: 1, per: '1h' } } }] },
  newer: { types: [{ type: 'block', version: 1 }], version: 2 },
  /** The control: the same types and limits, and nothing at the head. */
  nothing: { types: [{ type: 'block', limit: { concurrency: 1 } }], none: true },
};

async function lateCommit(scene, name, openMs) {
  const psql = await scene.session();
  await psql.query('BEGIN');
  await scene.hf.enqueue(task, { n: name, ms: 0 }, { tx: psql });
  await wait(openMs);
  await psql.query('COMMIT');
  const at = clock();
  await psql.end();
  const key = `task ${name}`;
  await became(() => scene.runs.has(key), 15_000);
  return (scene.runs.get(key)?.start ?? Number.POSITIVE_INFINITY) - at;
}

/** One phase: both queues get jobs at a rate for some seconds; and what the claims meanwhile read. */
async function phase(scene, types, { notify, prefix, seconds, late }) {
  const options = { notify };
  const workers = await Promise.all([
    scene.worker({ types: [{ type: 'task' }, ...types], options }),
    scene.worker({ types: [{ type: 'beside', queue: 'beside' }], options }),
  ]);
  await scene.settle();
  // Without notifications the first job of a quiet queue waits for a poll, anything up to a second: that is not measured.
  const first = { perSecond: PER_SECOND, seconds: 1 / PER_SECOND, prefix: `${prefix} first` };
  const firsts = await Promise.all([task, beside].map((one) => scene.offer(one, first)));
  await scene.all(firsts.flat(), 'start', 10_000);
  const found = {};
  found.buffers = await scene.meter.watchBuffers('claim', async () => {
    // Its transaction is open while others come and go, and longer than they take.
    const committed = late ? lateCommit(scene, 'late', seconds * 1_000 + OPEN_MS) : null;
    const how = { perSecond: PER_SECOND, seconds, prefix };
    const [offered, others] = await Promise.all([task, beside].map((one) => scene.offer(one, how)));
    await scene.all([...offered, ...others], 'start', 10_000);
    Object.assign(found, startsOf(scene.waits(offered)), {
      empty: startsOf(scene.waits(others)),
    });
    found.lateMs = await committed;
  });
  await killWorkers(workers);
  return found;
}

/** Rounds in one scene: the block is written once. */
async function measure(open, name, { count, seconds, rounds }) {
  const { types = [], prepare, first, version = 1, none = false } = BLOCKS[name];
  const scene = await open();
  await scene.hf.createQueue('beside');
  await prepare?.(scene);
  const steps = version > 1 ? { upgrade: { 1: (payload) => payload } } : {};
  const block = job('block', { version, ...steps });
  if (first) {
    // It runs for as long as the scene, in a worker that nobody kills.
    await scene.hf.enqueue(block, first);
    await scene.worker({ types });
    await scene.settle();
  }
  if (!none) await scene.fill(block, count);
  await vacuum(scene.url, 'holdfast');
  const found = { with: [], without: [] };
  for (let round = 0; round < rounds; round++) {
    for (const side of ['with', 'without']) {
      const notify = side === 'with';
      const how = { notify, prefix: `${side} ${round}`, seconds };
      found[side].push(await phase(scene, types, { ...how, late: !notify && round === 0 }));
    }
  }
  await scene.close();
  return found;
}

export async function run({ open, size, rounds, figure, say }) {
  const how = { count: size(250_000, 50_000), seconds: size(5, 2), rounds };
  const found = {};
  for (const name of Object.keys(BLOCKS)) {
    found[name] = await measure(open, name, how);
    for (const [side, phases] of Object.entries(found[name]))
      for (const { p50, p99, empty, buffers, lateMs } of phases)
        say(
          `  ${name}, ${side} notify: start p50 ${p50.toFixed(1)}, p99 ${p99.toFixed(1)} ms, beside it ${empty.p50.toFixed(1)}, ${empty.p99.toFixed(1)}; ${buffers.calls} claims, buffers mean ${buffers.mean.toFixed(0)}, usually up to ${buffers.p95.toFixed(0)}, most ${buffers.most.toFixed(0)}${lateMs ? `; late commit ${inSeconds(lateMs)}` : ''}`,
        );
  }
  const phasesOf = (name) => [...found[name].with, ...found[name].without];
  const mostOf = (name, what) => Math.max(...phasesOf(name).map(({ buffers }) => buffers[what]));
  for (const name of Object.keys(BLOCKS).filter((one) => !BLOCKS[one].none)) {
    for (const side of ['with', 'without'])
      for (const what of ['p50', 'p99'])
        ratio(figure, `blocked_${name}_${side}_notify_${what}`, {
          values: found[name][side].map((one) => one[what]),
          base: found[name][side].map(({ empty }) => empty[what]),
          goal: START_GOAL,
          unit: ' ms',
        });
    inTime(figure, `blocked_${name}_late_commit`, found[name].without[0].lateMs, LATE_GOAL_MS);
    atMost(figure, `blocked_${name}_claim_buffers`, Math.round(mostOf(name, 'p95')), BUFFERS_GOAL);
    const dearest = mostOf(name, 'most') / mostOf('nothing', 'most');
    atMost(figure, `blocked_${name}_dearest_claim`, dearest, DEAREST_GOAL, ' x');
    const claims = Math.max(...phasesOf(name).map(({ buffers }) => buffers.calls));
    atMost(figure, `blocked_${name}_claims`, claims / (2 * PER_SECOND * how.seconds), CLAIMS_GOAL);
  }
}
