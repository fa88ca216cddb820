// One cell of the steady load: a system, a kind, a number of worker processes and a rate, measured
// once on a fresh database. Latency is from the call of enqueue to the handler's start in another
// process. Postgres' processor time is that of all its processes over the window, enqueues included,
// over the handlers that started in it.
import { availableParallelism } from 'node:os';
import { startActors } from '../actors.mjs';
import { became, clock, wait } from '../clock.mjs';
import { vacuum } from '../databases.mjs';
import { machineCpuMs, postgresCpuMs } from '../processor.mjs';
import { percentile } from '../statistics.mjs';

/** Until the workers listen. */
const LEAD_MS = 500;
const VACUUM_AFTER_MS = 500;
const CONNECTIONS = 10;
const TAIL_MS = 2_000;
/** A rate is held when every job started and 99 of 100 within this. */
const HELD_MS = 1_000;

const sum = (values) => values.reduce((total, value) => total + value, 0);
const started = (workers) => sum(workers.map(({ progress }) => progress.count));

async function reading(server, producer, workers) {
  const used = async (actor) => (await actor.ask('usage')).cpuMs;
  const workersMs = sum(await Promise.all(workers.map(used)));
  const { user, system } = process.cpuUsage();
  const [postgresMs, machineMs] = [postgresCpuMs(server.pid), machineCpuMs()];
  const benchMs = workersMs + (await used(producer)) + (user + system) / 1000;
  const othersMs = postgresMs === null ? null : machineMs - postgresMs - benchMs;
  return { at: clock(), postgresMs, workersMs, othersMs, started: started(workers) };
}

/** Each job once, however often it started. */
const distinct = (workers) => new Set(workers.flatMap(({ progress }) => progress.ids)).size;

/** Jobs that did not start count as infinitely late. */
function latenciesOf(workers, measured) {
  const latencies = workers.flatMap(({ progress }) => progress.latencies);
  const missing = Math.max(0, measured - latencies.length);
  return [...latencies, ...Array(missing).fill(Number.POSITIVE_INFINITY)];
}

const until = (time) => wait(Math.max(0, time - clock()));

async function run(server, { system, url }, [producer, ...workers], cell) {
  const { keys, rate, warmMs, ms } = cell;
  const ordered = keys > 0;
  const work = { handler: 'millisecond', stamps: true, ordered };
  await producer.ask('connect', { connections: CONNECTIONS, ordered });
  await Promise.all(workers.map((worker) => worker.work(work)));
  const from = clock() + LEAD_MS;
  const producing = producer.ask('offer', { from, rate, keys, warmMs, ms });
  // Awaited below; a failure before that is not an unhandled one.
  producing.catch(() => {});
  // Under load, so that plans are made for tables as they are in use, as a minute later in life.
  await until(from + VACUUM_AFTER_MS);
  await vacuum(url, system.schema);
  await until(from + warmMs);
  const before = await reading(server, producer, workers);
  await until(from + warmMs + ms);
  const after = await reading(server, producer, workers);
  const { sent, measured, failed, stuck, lateMs } = await producing;
  await became(() => distinct(workers) >= sent, TAIL_MS, 50);
  const latencies = latenciesOf(workers, measured);
  const handled = Math.max(1, after.started - before.started);
  const tookMs = after.at - before.at;
  // On a machine that is far too busy the vacuum ends when the window is nearly over.
  const known = tookMs > ms / 2;
  const p99 = percentile(latencies, 0.99);
  const missing = sent - distinct(workers);
  const perJob = (name) => ((after[name] - before[name]) * 1000) / handled;
  return {
    p50: percentile(latencies, 0.5),
    p99,
    postgresUs: known && before.postgresMs !== null ? perJob('postgresMs') : null,
    workerUs: known ? perJob('workersMs') : null,
    perSecond: (handled * 1000) / tookMs,
    missing,
    twice: started(workers) - distinct(workers),
    held: missing === 0 && failed === 0 && !stuck && p99 <= HELD_MS,
    producerLateMs: lateMs,
    othersShare: (after.othersMs - before.othersMs) / tookMs / availableParallelism(),
  };
}

export async function measureCell({ databases, server }, entry, cell) {
  const url = await databases.fresh(entry.system);
  const there = { ...entry, url };
  const actors = await startActors(there, cell.workers + 1);
  try {
    return await run(server, there, actors, cell);
  } finally {
    await Promise.all(actors.map((actor) => actor.kill()));
  }
}
