// The real worker beside the bare statements, and the claim at a small and at a large backlog.
import { claim } from '../dist/claim/claim.js';
import { Probes } from '../dist/claim/probes.js';
import { job } from '../dist/index.js';
import { complete } from '../dist/settle/complete.js';
import { fill, INBOX, openGround } from './ground.mjs';
import { median, spread } from './statistics.mjs';

const BATCH = 500;
const noop = job('noop');
const request = (probes, limit) => ({
  workerId: 'bench',
  probes,
  limit,
  leaseMs: 90_000,
  versions: { noop: 1 },
  above: {},
  deadWorkers: [],
  cursorLagMs: 2_000,
});
const newProbes = () => new Probes({ pollMs: 500 });

async function claimNext(engine, probes, limit) {
  const from = performance.now();
  const answer = await claim(engine, INBOX, request(probes.take(from), limit));
  const took = performance.now() - from;
  probes.learn(answer, limit, performance.now(), took);
  return { rows: answer.jobs, took };
}

/** Claim, complete, and again, on one connection: what the statements alone can do. */
async function bare({ engine }, count) {
  const probes = newProbes();
  const from = performance.now();
  for (let done = 0; done < count; ) {
    const { rows } = await claimNext(engine, probes, BATCH);
    if (rows.length === 0) continue;
    rows.sort((a, b) => (a.id < b.id ? -1 : 1));
    const moved = await complete(
      engine,
      INBOX,
      'bench',
      rows.map((row) => ({ id: row.id, generation: row.leaseGeneration })),
    );
    done += moved.length;
  }
  return (count / (performance.now() - from)) * 1000;
}

/** The worker that users get, with its defaults, until the last job is archived. */
async function real({ hf }, count) {
  let ended = () => {};
  const finished = new Promise((resolve) => {
    ended = resolve;
  });
  let completed = 0;
  const worker = hf
    .worker({
      handleSignals: false,
      onEvent: (event) => {
        if (event.kind === 'completed' && ++completed === count) ended();
      },
    })
    .handle(noop, () => {});
  const running = worker.run();
  const from = performance.now();
  await finished;
  const rate = (count / (performance.now() - from)) * 1000;
  await worker.stop();
  await running;
  return rate;
}

async function claimTime(ground, backlog, claims) {
  await fill(ground.admin, backlog);
  const probes = newProbes();
  const times = [];
  for (let n = 0; n < claims + 20; n++) {
    // The statement alone: the commit's wait for the disk is the same at any backlog and would hide it.
    await ground.client.query('BEGIN');
    const { rows, took } = await claimNext(ground.engine, probes, 25);
    await ground.client.query('COMMIT');
    if (rows.length !== 25)
      throw new Error(`a claim at a backlog of ${backlog} returned ${rows.length} jobs`);
    // The first claims meet a cold cache and unplanned statements.
    if (n >= 20) times.push(took);
  }
  return median(times);
}

export async function drain({ url, quick, figure, say }) {
  const ground = await openGround(url);
  const jobs = quick ? 50_000 : 200_000;
  const rates = { bare: [], real: [] };
  for (let round = 0; round < (quick ? 3 : 5); round++) {
    await fill(ground.admin, jobs);
    rates.bare.push(await bare(ground, jobs));
    await fill(ground.admin, jobs);
    rates.real.push(await real(ground, jobs));
    say(
      `round ${round + 1}: bare ${Math.round(rates.bare.at(-1))}, worker ${Math.round(rates.real.at(-1))} jobs/s`,
    );
  }
  say(
    `bare statements: median ${Math.round(median(rates.bare))} jobs/s (${spread(rates.bare)}), batches of ${BATCH}`,
  );
  say(
    `worker:          median ${Math.round(median(rates.real))} jobs/s (${spread(rates.real)}), default options`,
  );
  const share = median(rates.real) / median(rates.bare);
  figure('drain.worker_share_of_bare', `${(share * 100).toFixed(0)}%`, '>= 60%', share >= 0.6);

  const large = quick ? 1_000_000 : 5_000_000;
  const claims = 200;
  const small1 = await claimTime(ground, 10_000, claims);
  say(
    `claim of 25 at a backlog of 10,000: median ${small1.toFixed(3)} ms; loading ${large.toLocaleString('en')} rows …`,
  );
  const big = await claimTime(ground, large, claims);
  const small2 = await claimTime(ground, 10_000, claims);
  say(
    `claim of 25 at ${large.toLocaleString('en')}: median ${big.toFixed(3)} ms; at 10,000 again: ${small2.toFixed(3)} ms`,
  );
  const ratio = big / ((small1 + small2) / 2);
  figure(
    `drain.claim_time_${large / 1_000_000}M_over_10k`,
    ratio.toFixed(2),
    '<= 1.3',
    ratio <= 1.3,
  );
  await ground.close();
}
