// Recovery: a worker process is killed with 100 jobs in its hands, another stands by. Default
// settings, but for a concurrency of 100, so that all the jobs have started. Seconds until all of
// them ran again. The systems wait side by side: there is nothing to do but to wait.
import { startActor } from '../actors.mjs';
import { became, clock, wait } from '../clock.mjs';

const JOBS = 100;
/** So long a server must be up before Holdfast declares a worker dead by its lock. */
const SERVER_AGE_MS = 11_000;

async function recovered(stage, entry, limitMs) {
  const victim = await startActor(entry);
  await victim.work({ handler: 'hold', concurrency: JOBS });
  await stage.produce(entry, { mode: 'fill', count: JOBS, size: JOBS });
  const held = await became(() => victim.progress.count >= JOBS, 20_000);
  if (!held) return { problem: `took ${victim.progress.count} of ${JOBS} jobs within 20 s` };
  const standby = await startActor(entry);
  await standby.work({ concurrency: JOBS, markEvery: JOBS });
  await wait(3_000);
  const from = clock();
  await victim.kill();
  const whole = await became(() => standby.progress.count >= JOBS, limitMs);
  const { marks, count } = standby.progress;
  await standby.kill();
  return whole ? { seconds: (marks[0][1] - from) / 1000 } : { count };
}

export async function recovery({ stage, entries, span, figure, table, raw, say }) {
  await became(async () => {
    const { rows } = await stage.admin.query(
      `SELECT extract(epoch FROM now() - pg_postmaster_start_time()) * 1000 > ${SERVER_AGE_MS} AS old`,
    );
    return rows[0].old;
  }, SERVER_AGE_MS + 5_000);
  const limitMs = span(120_000, 10_000);
  const contestants = [entries.ours, ...entries.defaults];
  for (const entry of contestants) await stage.empty(entry);
  const results = await Promise.all(
    contestants.map((entry) => recovered(stage, entry, entry.ours ? 120_000 : limitMs)),
  );
  const found = contestants.map((entry, at) => {
    const { seconds, problem, count } = results[at];
    const text = seconds
      ? `${seconds.toFixed(2)} s`
      : (problem ?? `> ${limitMs / 1000} s (${count} of ${JOBS} had run again)`);
    say(`${entry.label}: ${text}`);
    return { entry, seconds, text };
  });
  const [ours, ...peers] = found;
  const best = peers.filter(({ seconds }) => seconds).sort((a, b) => a.seconds - b.seconds)[0];
  const limit = best?.seconds ?? limitMs / 1000;
  figure(
    'recovery.after_sigkill',
    ours.text,
    `< ${limit.toFixed(0)} s${best ? `, ${best.entry.label}` : ', the time given to peers'}`,
    ours.seconds < limit,
  );
  raw('recovery', Object.fromEntries(found.map(({ entry, text }) => [entry.label, text])));
  table({
    title: `SIGKILL of a worker with ${JOBS} jobs in its hands: until all ran again`,
    columns: ['', 'time'],
    rows: found.map(({ entry, text }) => [entry.label, text]),
  });
}
