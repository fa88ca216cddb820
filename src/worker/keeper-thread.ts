/**
 * The keeper's thread: heartbeats, lease renewal, the liveness lock and the watch over others, where a
 * blocked event loop cannot starve them.
 *
 * It holds connections of its own and the list of jobs that the main thread holds. A handler that spins
 * for a minute does not cost the other jobs of the process their leases. It must not keep a process alive
 * for ever that no longer works, either: when the main thread's counter has not moved for `stallMs`,
 * renewals and heartbeats stop until it moves again, and the fleet takes over.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { heartbeat, leave, markDraining } from '../fleet/registry.js';
import { Backoff, pause } from './backoff.js';
import { Deadline } from './keeper-deadline.js';
import { Leases } from './keeper-leases.js';
import { Line } from './keeper-line.js';
import {
  type FromKeeper,
  type KeeperSetup,
  SLOT,
  signalClock,
  type ToKeeper,
} from './keeper-protocol.js';
import { Watch } from './keeper-watch.js';
import { hearSignals } from './signals.js';

/** An answer that takes longer will not come: the connection may be half open. */
const LOOK_LIMIT_MS = 10_000;
const IDLE_MS = 1_000;
const LATE_MS = 1_000;
const CLOSE_MS = 150;

const port = parentPort;
if (!port) throw new Error('the keeper runs as a worker thread only');
const setup = workerData as KeeperSetup;
const shared = new Int32Array(setup.shared);
const names = { schema: setup.schema, queue: setup.queues[0] as string };
const tell = (message: FromKeeper) => port.postMessage(message);
let workerId = setup.workerId;
let declaredDead = false;
/** Sessions of this thread hold the liveness lock. */
let holds = setup.liveness && (!setup.pooled || setup.directUrl !== null);

let lastBeat = Atomics.load(shared, SLOT.beat);
let beatSeenAt = performance.now();

/** For how long the main thread has not turned, as far as it was looked at. */
function stuckMs(): number {
  const current = Atomics.load(shared, SLOT.beat);
  if (current !== lastBeat) {
    lastBeat = current;
    beatSeenAt = performance.now();
  }
  return performance.now() - beatSeenAt;
}
const stalled = () => stuckMs() > setup.stallMs;

function trouble(what: string, error: unknown): void {
  const code = (error as { code?: unknown }).code;
  tell({
    kind: 'trouble',
    what,
    message: error instanceof Error ? error.message : String(error),
    code: typeof code === 'string' ? code : null,
  });
}

function lockIsOff(): void {
  if (!holds) return;
  holds = false;
  trouble(
    'holding the liveness lock',
    'The liveness lock is off, because the connection goes through a pooler and has no session of its ' +
      'own. If this process is killed, the others notice by its heartbeats only, after the TTL. ' +
      'Name a direct connection as listenUrl.',
  );
  tell({ kind: 'watched' });
}

function line(url: string, pooled: boolean, isLast: boolean): Line {
  return new Line({
    url,
    pooled,
    prepare: setup.prepare,
    schema: setup.schema,
    queryTimeoutMs: Math.max(1_000, Math.floor(setup.leaseMs / 3)),
    holdsFor: () => (holds && !pooled ? workerId : null),
    foundPooler: isLast ? lockIsOff : () => {},
  });
}

const beatLine = line(setup.connectionString, setup.pooled, setup.directUrl === null);
const renewLine = line(setup.connectionString, setup.pooled, false);
const watchLine = setup.directUrl === null ? beatLine : line(setup.directUrl, false, true);
const lines = [...new Set([beatLine, renewLine, watchLine])];

function foundDead(id: string): void {
  if (id !== workerId || declaredDead) return;
  declaredDead = true;
  tell({ kind: 'dead', workerId: id });
}

const facts = () => ({
  ...setup.metadata,
  load: { running: Atomics.load(shared, SLOT.running), held: Atomics.load(shared, SLOT.held) },
});

/** Looks are heartbeats too. This one is for when they fail, or are late. */
const lateMs = setup.heartbeatMs + Math.min(setup.heartbeatMs / 10, LATE_MS);
async function beatOnce(): Promise<number> {
  if (declaredDead || stalled()) return setup.heartbeatMs;
  if (watch.beatAgoMs < lateMs) return lateMs - watch.beatAgoMs;
  const id = workerId;
  const db = await beatLine.executor();
  const status = await heartbeat(db, names, id, facts());
  if (status === null) foundDead(id);
  else tell({ kind: 'beat', workerId: id });
  if (status === 'draining') tell({ kind: 'drain-asked' });
  return setup.heartbeatMs;
}

const leases = new Leases({ ...setup, workerId: () => workerId, tell });
// Looking more often than renewing keeps the margin: a job is renewed when half of the interval is over.
const renewLookMs = Math.ceil(setup.renewMs / 2);
let toldStalled = false;
async function renewOnce(): Promise<number> {
  const stall = stalled();
  if (stall && !toldStalled) tell({ kind: 'stalled', forMs: Math.round(stuckMs()) });
  toldStalled = stall;
  if (!stall) await leases.renew(renewLine);
  return renewLookMs;
}

const watch = new Watch({
  line: watchLine,
  names,
  heartbeatMs: setup.heartbeatMs,
  direct: () => holds,
  workerId: () => workerId,
  declaredDead: foundDead,
  facts,
  tell,
});

async function lookOnce(): Promise<number> {
  if (declaredDead || stalled()) return Math.min(IDLE_MS, setup.heartbeatMs);
  const answered = new AbortController();
  const late = pause(LOOK_LIMIT_MS, answered.signal);
  const nextMs = await Promise.race([watch.look(), late]).finally(() => answered.abort());
  if (nextMs === undefined) throw new Error(`no answer within ${LOOK_LIMIT_MS} ms`);
  return nextMs;
}

/** Runs a task for ever; it says when it is due again. A failure is told and tried again soon. */
function loop(
  what: string,
  line: Line,
  task: () => Promise<number>,
  longestMs: number,
  firstMs = longestMs,
) {
  const backoff = new Backoff();
  let timer: NodeJS.Timeout;
  let over = false;
  const turn = async () => {
    let nextMs: number;
    try {
      nextMs = await task();
      backoff.reset();
    } catch (error) {
      line.failed(error);
      nextMs = Math.min(longestMs, backoff.nextMs());
      if (!over) trouble(what, error);
    }
    if (!over) timer = setTimeout(() => void turn(), nextMs);
  };
  timer = setTimeout(() => void turn(), firstMs);
  return () => {
    over = true;
    clearTimeout(timer);
  };
}

const stops = [
  loop('heartbeat', beatLine, beatOnce, setup.heartbeatMs),
  loop('renewing leases', renewLine, renewOnce, renewLookMs),
  // The first look takes the liveness lock.
  loop('watching the fleet', watchLine, lookOnce, setup.heartbeatMs, 0),
];
for (const one of lines) void one.open();
if (!holds) tell({ kind: 'watched' });

const deadline = new Deadline({
  graceMs: setup.graceMs,
  stuckMs,
  // The one knows what was lost, the other what has left and was not told.
  held: () => Math.min(leases.size, Atomics.load(shared, SLOT.kept)),
  announce: () => {
    const said = beatLine.executor().then((db) => markDraining(db, names, workerId));
    said.catch((error) => trouble('announcing the drain', error));
  },
  handBack: async () => {
    const db = await renewLine.executor();
    const count = await leases.handBack(db);
    // A claim whose answer the main thread has not read may have taken more.
    await leave(db, names, workerId, false);
    return count;
  },
  forgotten: () => Atomics.store(shared, SLOT.signalledAt, 0),
});

if (setup.handleSignals) {
  try {
    const deafen = hearSignals(() => {
      Atomics.compareExchange(shared, SLOT.signalledAt, 0, signalClock());
      deadline.signalled();
    });
    stops.push(deafen);
  } catch (error) {
    trouble('hearing signals beside the main thread', error);
  }
}

async function stop(guard: boolean): Promise<void> {
  for (const end of stops) end();
  const guards = guard && deadline.guard();
  if (!guards) deadline.stop();
  await Promise.all(lines.map((one) => one.close(CLOSE_MS)));
  tell({ kind: 'stopped' });
  if (!guards) port?.close();
}

function reborn(id: string): void {
  workerId = id;
  declaredDead = false;
  leases.clear();
  for (const one of lines) void one.open();
  // The registration may have waited longer than a TTL; be seen at once.
  beatOnce().catch((error: unknown) => trouble('heartbeat', error));
}

port.on('message', (message: ToKeeper) => {
  const { kind } = message;
  if (kind === 'hold') leases.hold(message);
  else if (kind === 'left') leases.left(message);
  else if (kind === 'rest') leases.rest(message);
  else if (kind === 'identity') reborn(message.workerId);
  else if (kind === 'drain') deadline.drain(message.graceMs, message.signalled);
  else void stop(message.guard);
});
