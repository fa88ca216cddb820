// What 50 open browsers take from the workers: a backlog of 5 million jobs, two worker processes that do nothing but
// claim and complete, and their throughput without a page and with 50, in turns. The pages and the dashboard's server
// run on the same machine, so their own processor time is part of the loss; how much each of them used stands beside
// it. Before each round the backlog is filled up.
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { became, clock, wait } from './clock.mjs';
import { startMeter, USERS } from './dashboard/meter.mjs';
import { fill, fillMore, openFixture } from './fixture.mjs';
import { measured, median, plain } from './statistics.mjs';

const PAGES = 50;
const WORKERS = 2;
const MOST_LOST = 3;
/** Several polls of the dashboard, which come every two seconds. */
const WINDOW_MS = 10_000;
const WARM_MS = 1_000;
/** A window ends earlier when so much of the backlog is done: a small one is for trying the script. */
const MOST_DONE = 0.4;

function start(script, url) {
  const path = fileURLToPath(new URL(`./dashboard/${script}`, import.meta.url));
  return fork(path, [url], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
}

/** What it says next. */
function answerOf(child) {
  return new Promise((resolve, reject) => {
    const gone = (code) => reject(new Error(`a process of the bench ended with ${code}`));
    child.once('exit', gone);
    child.once('message', (answer) => {
      child.off('exit', gone);
      resolve(answer);
    });
  });
}

/** One question at a time. */
function ask(child, message) {
  const answer = answerOf(child);
  child.send(message);
  return answer;
}

async function completed(workers) {
  const counts = await Promise.all(workers.map((worker) => ask(worker, 'count')));
  return counts.reduce((sum, count) => sum + count, 0);
}

/** Jobs a second, over a window that begins when the workers are at it, and what the dashboard used meanwhile. */
async function throughput(system, backlog, count) {
  const { workers, pages, hf, admin } = system;
  await ask(pages, count);
  const before = await completed(workers);
  await hf.resume('inbox');
  if (!(await became(async () => (await completed(workers)) > before, 30_000)))
    throw new Error('the workers complete nothing');
  const most = before + backlog * MOST_DONE;
  const isShort = backlog < 1_000_000;
  if (!isShort) await wait(WARM_MS);
  const meter = await startMeter(admin, system);
  const [from, first] = [clock(), await completed(workers)];
  let last = first;
  await became(
    async () => {
      last = await completed(workers);
      meter.read();
      return last >= most;
    },
    WINDOW_MS,
    50,
  );
  const perSecond = ((last - first) * 1_000) / (clock() - from);
  const used = await meter.end();
  await hf.pause('inbox');
  await ask(pages, 0);
  return { perSecond, used };
}

const WAITING = `SELECT count(*)::int AS n FROM holdfast.inbox`;

async function topUp({ admin, hf }, backlog) {
  await hf.pause('inbox');
  const { rows } = await admin.query(WAITING);
  if (rows[0].n < backlog) await fillMore(admin, backlog - rows[0].n);
  await admin.query('TRUNCATE holdfast.inbox_archive');
  await admin.query('CHECKPOINT');
}

export async function dashboard({ url, quick, options, figure, fact, say }) {
  const fixture = await openFixture(url);
  const { admin, hf } = fixture;
  const backlog = options.backlog ?? (quick ? 500_000 : 5_000_000);
  const rounds = options.rounds ?? (quick ? 3 : 7);
  await hf.pause('inbox');
  say(`loading ${backlog.toLocaleString('en')} jobs …`);
  await fill(admin, backlog);
  const server = start('server.mjs', url);
  const pages = start('pages.mjs', await answerOf(server));
  await answerOf(pages);
  const workers = Array.from({ length: WORKERS }, () => start('worker.mjs', url));
  const system = { workers, server, pages, hf, admin };
  const [without, beside] = [[], []];
  try {
    for (let round = 0; round < rounds; round++) {
      const turns = [
        [without, 0],
        [beside, PAGES],
      ];
      for (const [turn, count] of round % 2 ? turns.reverse() : turns) {
        await topUp(fixture, backlog);
        const { perSecond, used } = await throughput(system, backlog, count);
        turn.push({ perSecond, used });
        const shares = USERS.map((user) => `${user} ${plain(used[user])} %`).join(', ');
        say(`${plain(perSecond)} jobs/s with ${count} pages; of the processors: ${shares}`);
      }
    }
  } finally {
    for (const child of [...workers, pages, server]) child.kill('SIGKILL');
    await hf.resume('inbox');
  }
  fact('dashboard.jobs_per_second_without_pages', measured(without.map((one) => one.perSecond)));
  fact(
    `dashboard.jobs_per_second_with_${PAGES}_pages`,
    measured(beside.map((one) => one.perSecond)),
  );
  for (const user of USERS)
    fact(`dashboard.${user}_processor_percent`, measured(beside.map(({ used }) => used[user])));
  // Neighbours in time meet the same moods of the machine.
  const losses = beside.map((one, n) => (1 - one.perSecond / without[n].perSecond) * 100);
  fact('dashboard.loss_percent_of_pairs', measured(losses));
  const loss = median(losses);
  figure('dashboard.loss_percent', loss.toFixed(1), `<= ${MOST_LOST}`, loss <= MOST_LOST);
  await fixture.close();
}
