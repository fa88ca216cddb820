/**
 * The keeper's thread: heartbeats and lease renewal, where a blocked event loop cannot starve them.
 *
 * It holds a connection of its own and the list of jobs that the main thread holds. A handler that spins
 * for a minute does not cost the other jobs of the process their leases. It must not keep a process alive
 * for ever that no longer works, either: when the main thread's counter has not moved for `stallMs`,
 * renewals and heartbeats stop until it moves again, and the fleet takes over.
 */
import { parentPort, workerData } from 'node:worker_threads';
import pg from 'pg';
import { deadWorkers, heartbeat } from '../fleet/registry.js';
import { type Held, renewFree } from '../lease/renew.js';
import { engineConfig } from '../postgres/pool.js';
import { type Executor, engineExecutor } from '../postgres/queryable.js';
import { Backoff } from './backoff.js';
import type { FromKeeper, KeeperSetup, ToKeeper } from './keeper-protocol.js';

const RENEW_CHUNK = 1_000;

interface Kept {
  readonly generation: number;
  /** When the lease was last known to be fresh, on this thread's clock. */
  freshAt: number;
}

const port = parentPort;
if (!port) throw new Error('the keeper runs as a worker thread only');
const setup = workerData as KeeperSetup;
const beat = new Int32Array(setup.beat);
const kept = new Map<string, Map<string, Kept>>(setup.queues.map((queue) => [queue, new Map()]));
const names = (queue: string) => ({ schema: setup.schema, queue });
const tell = (message: FromKeeper) => port.postMessage(message);
let workerId = setup.workerId;
let declaredDead = false;

const now = () => performance.now();
let lastBeat = Atomics.load(beat, 0);
let beatSeenAt = now();

function stalled(): boolean {
  const current = Atomics.load(beat, 0);
  if (current !== lastBeat) {
    lastBeat = current;
    beatSeenAt = now();
  }
  return now() - beatSeenAt > setup.stallMs;
}

/** One connection, made again when it breaks; every error of it is told to the main thread. */
class Line {
  #client: pg.Client | null = null;
  #connecting: Promise<Executor> | null = null;

  executor(): Promise<Executor> {
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = null;
    });
    return this.#connecting;
  }

  async #connect(): Promise<Executor> {
    if (!this.#client) {
      const client = new pg.Client({
        ...engineConfig({
          connectionString: setup.connectionString,
          applicationName: 'holdfast keeper',
          queryTimeoutMs: Math.max(1_000, Math.floor(setup.leaseMs / 3)),
        }),
      });
      client.on('error', () => this.#drop(client));
      try {
        await client.connect();
      } catch (error) {
        await client.end().catch(() => undefined);
        throw error;
      }
      this.#client = client;
    }
    return engineExecutor(this.#client, { prepare: setup.prepare });
  }

  #drop(client: pg.Client): void {
    if (this.#client === client) this.#client = null;
  }

  reset(): void {
    const client = this.#client;
    this.#client = null;
    client?.end().catch(() => undefined);
  }

  async close(): Promise<void> {
    await this.#client?.end().catch(() => undefined);
    this.#client = null;
  }
}

const beatLine = new Line();
const renewLine = new Line();

function trouble(what: string, error: unknown): void {
  const code = (error as { code?: unknown }).code;
  tell({
    kind: 'trouble',
    what,
    message: error instanceof Error ? error.message : String(error),
    code: typeof code === 'string' ? code : null,
  });
}

async function beatOnce(): Promise<void> {
  if (declaredDead || stalled()) return;
  const id = workerId;
  const db = await beatLine.executor();
  const queue = setup.queues[0] as string;
  const alive = await heartbeat(db, names(queue), id, setup.metadata);
  if (!alive && id === workerId) {
    declaredDead = true;
    tell({ kind: 'dead', workerId: id });
  }
  tell({ kind: 'dead-workers', ids: await deadWorkers(db, names(queue)) });
}

async function renewQueue(queue: string, jobs: Map<string, Kept>): Promise<void> {
  const due: Held[] = [];
  const startedAt = now();
  for (const [id, job] of jobs) {
    if (startedAt - job.freshAt >= setup.renewMs / 2) due.push({ id, generation: job.generation });
  }
  due.sort((a, b) => (a.id < b.id ? -1 : 1));
  for (let from = 0; from < due.length; from += RENEW_CHUNK) {
    const chunk = due.slice(from, from + RENEW_CHUNK);
    const owner = workerId;
    const db = await renewLine.executor();
    const rows = await renewFree(db, names(queue), owner, chunk, setup.leaseMs);
    const answer = new Map(rows.map((row) => [row.id, row.renewed]));
    const lost: Held[] = [];
    for (const { id, generation } of chunk) {
      const job = jobs.get(id);
      if (job?.generation !== generation) continue;
      const renewed = answer.get(id);
      if (renewed) job.freshAt = startedAt;
      else if (renewed === undefined) {
        lost.push({ id, generation });
        jobs.delete(id);
      }
    }
    if (lost.length > 0) {
      const ids = lost.map((job) => job.id);
      tell({ kind: 'lost', queue, ids, generations: lost.map((job) => job.generation) });
    }
  }
}

let toldStalled = false;
async function renewOnce(): Promise<void> {
  if (stalled()) {
    if (!toldStalled) tell({ kind: 'stalled', forMs: Math.round(now() - beatSeenAt) });
    toldStalled = true;
    return;
  }
  toldStalled = false;
  for (const [queue, jobs] of kept) await renewQueue(queue, jobs);
}

/** Runs a task for ever at its interval; a failure is told and tried again soon. */
function loop(what: string, everyMs: number, line: Line, task: () => Promise<void>): () => void {
  const backoff = new Backoff();
  let timer: NodeJS.Timeout;
  let over = false;
  const turn = async () => {
    let nextMs = everyMs;
    try {
      await task();
      backoff.reset();
    } catch (error) {
      line.reset();
      nextMs = Math.min(everyMs, backoff.nextMs());
      trouble(what, error);
    }
    if (!over) timer = setTimeout(() => void turn(), nextMs);
  };
  timer = setTimeout(() => void turn(), everyMs);
  return () => {
    over = true;
    clearTimeout(timer);
  };
}

// Looking more often than renewing keeps the margin: a job is renewed when half of the interval is over.
const stopBeat = loop('heartbeat', setup.heartbeatMs, beatLine, beatOnce);
const stopRenew = loop('renewing leases', Math.ceil(setup.renewMs / 2), renewLine, renewOnce);

async function stop(): Promise<void> {
  stopBeat();
  stopRenew();
  await Promise.all([beatLine.close(), renewLine.close()]);
  tell({ kind: 'stopped' });
  port?.close();
}

port.on('message', (message: ToKeeper) => {
  if (message.kind === 'hold') {
    const jobs = kept.get(message.queue) as Map<string, Kept>;
    const freshAt = now();
    for (const [index, id] of message.ids.entries()) {
      jobs.set(id, { generation: message.generations[index] as number, freshAt });
    }
  } else if (message.kind === 'drop') {
    const jobs = kept.get(message.queue) as Map<string, Kept>;
    for (const [index, id] of message.ids.entries()) {
      if (jobs.get(id)?.generation === message.generations[index]) jobs.delete(id);
    }
  } else if (message.kind === 'identity') {
    workerId = message.workerId;
    declaredDead = false;
    for (const jobs of kept.values()) jobs.clear();
    // The registration may have waited longer than a TTL; be seen at once.
    beatOnce().catch((error: unknown) => trouble('heartbeat', error));
  } else {
    void stop();
  }
});
