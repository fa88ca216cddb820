// Cost of a job that is drained: Postgres' processor time, log bytes, round trips and bytes on the
// wire, and the worker's own processor time and memory. And what 50 idle workers ask of the server.
// Round trips, bytes and idle queries are counted by a relay on the loopback, in runs of their own.
import { startActor, startActors } from '../actors.mjs';
import { wait } from '../clock.mjs';
import { drain } from '../draining.mjs';
import { postgresCpuMs } from '../processor.mjs';
import { startProxy } from '../proxy.mjs';
import { jobsFor } from '../rounds.mjs';
import { median, plain } from '../statistics.mjs';

const IDLE_WORKERS = 50;
const IDLE_PROCESSES = 5;

async function logBytes(admin) {
  const { rows } = await admin.query(
    "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 AS bytes",
  );
  return rows[0].bytes;
}

async function wireOf(stage, entry, actor, { jobs, limitMs }) {
  const proxy = await startProxy(entry.url);
  await stage.fill(entry, jobs);
  const { count } = await drain(stage, entry, [actor], { total: jobs, limitMs, url: proxy.url });
  const { toServer, toClient, roundTrips } = proxy.read();
  await proxy.stop();
  return { roundTrips: roundTrips / count, bytes: (toServer + toClient) / count };
}

/** What one job costs, in microseconds and bytes. */
export async function costOf({ stage, server, quick }, entry, jobs) {
  const actor = await startActor(entry);
  const limitMs = quick ? 6_000 : 60_000;
  // The drain through the relay comes first: it warms code and connections for the other.
  const wire = await wireOf(stage, entry, actor, { jobs, limitMs });
  await stage.fill(entry, jobs);
  const before = {
    cpu: postgresCpuMs(server.pid),
    log: await logBytes(stage.admin),
    worker: await actor.ask('usage'),
  };
  const { count, rss } = await drain(stage, entry, [actor], { total: jobs, limitMs });
  const cpu = postgresCpuMs(server.pid);
  const log = await logBytes(stage.admin);
  const worker = await actor.ask('usage');
  await actor.kill();
  // An actor that was started anew meanwhile has forgotten what it had used.
  const workerMs = worker.cpuMs - before.worker.cpuMs;
  return {
    jobs: count,
    postgresUs: cpu === null ? null : ((cpu - before.cpu) * 1000) / count,
    walBytes: (log - before.log) / count,
    workerUs: workerMs > 0 ? (workerMs * 1000) / count : null,
    rss,
    ...wire,
  };
}

async function memoryAt({ stage }, entry, jobs) {
  const actor = await startActor(entry);
  await stage.empty(entry);
  await stage.produce(entry, { mode: 'fill', count: jobs, size: 10_000 });
  await stage.tidy(entry);
  const { rss, count } = await drain(stage, entry, [actor], {
    total: jobs,
    limitMs: entry.ours ? 90_000 : 25_000,
  });
  await actor.kill();
  await stage.empty(entry);
  return { rss, count };
}

/** Queries per second at the server, of one idle worker among fifty. */
async function idleOf({ stage, quick, span }, entry) {
  await stage.empty(entry);
  const proxy = await startProxy(entry.url);
  const actors = await startActors(entry, IDLE_PROCESSES);
  await Promise.all(
    actors.map((actor) => actor.work({ count: IDLE_WORKERS / IDLE_PROCESSES, url: proxy.url })),
  );
  await wait(span(8_000, 3_000));
  const seconds = quick ? 3 : 12;
  const before = proxy.read();
  await wait(seconds * 1000);
  const after = proxy.read();
  await Promise.all(actors.map((actor) => actor.kill()));
  await proxy.stop();
  await stage.empty(entry);
  return {
    queries: (after.queries - before.queries) / seconds / IDLE_WORKERS,
    roundTrips: (after.roundTrips - before.roundTrips) / seconds / IDLE_WORKERS,
  };
}

/** Each value's median over the rounds; what one of them could not know is not known. */
const medians = (rounds) =>
  Object.fromEntries(
    Object.keys(rounds[0]).map((name) => {
      const values = rounds.map((round) => round[name]);
      return [name, values.includes(null) ? null : median(values)];
    }),
  );

const megabytes = (bytes) => (bytes ? `${(bytes / 1024 / 1024).toFixed(0)} MB` : '–');

async function idleCosts(context, contestants) {
  const { figure, raw, say, table } = context;
  const found = new Map();
  for (const entry of contestants) {
    const idle = await idleOf(context, entry);
    found.set(entry.label, idle);
    say(`${entry.label}: ${plain(idle.queries)} queries/s of each of ${IDLE_WORKERS} idle workers`);
  }
  const ours = found.get(contestants[0].label).queries;
  figure('cost.idle_queries_per_worker', `${plain(ours)} /s`, '<= 1 /s', ours <= 1);
  raw('idle', Object.fromEntries(found));
  table({
    title: `${IDLE_WORKERS} idle workers in ${IDLE_PROCESSES} processes, default settings`,
    columns: ['', 'queries per worker and second', 'in all, per second'],
    rows: contestants.map(({ label }) => [
      label,
      plain(found.get(label).queries),
      plain(found.get(label).queries * IDLE_WORKERS),
    ]),
  });
}

export async function cost(context) {
  const { entries, quick, size, figure, fact, table, chart, raw, say } = context;
  const contestants = [entries.ours, ...entries.fastest]
    .filter(({ system }) => system.postgres)
    .filter(({ system }) => !quick || system.package !== 'bullmq');
  const jobs = size(100_000, 20_000);
  const costs = new Map(contestants.map(({ label }) => [label, []]));
  for (let round = 0; round < (quick ? 1 : 3); round++) {
    for (const entry of contestants)
      costs.get(entry.label).push(await costOf(context, entry, jobsFor(entry, jobs)));
  }
  const found = new Map();
  for (const entry of contestants) {
    const job = medians(costs.get(entry.label));
    const memory = quick ? { rss: job.rss, count: job.jobs } : await memoryOf(context, entry);
    found.set(entry.label, { ...job, rss: memory.rss, memoryJobs: memory.count });
    say(
      `${entry.label}: ${plain(job.postgresUs)} µs of Postgres, ${plain(job.workerUs)} µs of its worker, ` +
        `${plain(job.walBytes)} bytes of log, ${plain(job.roundTrips)} round trips and ${plain(job.bytes)} bytes a job; ` +
        `${megabytes(memory.rss)} at ${plain(memory.count)} jobs`,
    );
  }
  const ours = found.get(entries.ours.label);
  if (ours.postgresUs === null)
    fact('cost.postgres_cpu_per_job', 'unknown: there is no /proc here');
  else
    figure(
      'cost.postgres_cpu_per_job',
      `${plain(ours.postgresUs)} µs`,
      '<= 20 µs',
      ours.postgresUs <= 20,
    );
  figure('cost.wal_per_job', `${plain(ours.walBytes)} bytes`, '<= 450 bytes', ours.walBytes <= 450);
  fact('cost.round_trips_per_job', plain(ours.roundTrips));
  fact('cost.wire_bytes_per_job', plain(ours.bytes));
  fact(`cost.worker_rss_at_${plain(ours.memoryJobs)}_jobs`, megabytes(ours.rss));
  raw('cost', { medians: Object.fromEntries(found), rounds: Object.fromEntries(costs) });
  table({
    title: `Cost of a drained job (${plain(jobs)} jobs, one process)`,
    columns: [
      '',
      'Postgres µs',
      'worker µs',
      'log bytes',
      'round trips',
      'bytes on the wire',
      'worker memory',
    ],
    rows: contestants.map(({ label }) => {
      const one = found.get(label);
      return [
        label,
        plain(one.postgresUs),
        plain(one.workerUs),
        plain(one.walBytes),
        one.roundTrips.toFixed(4),
        plain(one.bytes),
        `${megabytes(one.rss)} at ${plain(one.memoryJobs)} jobs`,
      ];
    }),
  });
  chart({
    file: 'cost',
    title: "Postgres' processor time a job drained, µs (shorter is better)",
    bars: contestants.map(({ label, ours: mine }) => ({
      label,
      ours: mine,
      value: found.get(label).postgresUs,
    })),
  });
  await idleCosts(context, quick ? [entries.ours] : [entries.ours, ...idlePeers(entries)]);
  if (quick)
    say("BullMQ, peers' idle workers, and memory at a million jobs: skipped in a quick run.");
}

const memoryOf = (context, entry) =>
  memoryAt(context, entry, entry.system.package === 'bullmq' ? 10_000 : context.size(1_000_000, 0));
const idlePeers = ({ defaults }) => defaults.filter(({ system }) => system.postgres);
