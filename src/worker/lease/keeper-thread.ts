/**
 * The keeper's thread: heartbeats, lease renewal, the liveness lock and the watch over others, where a
 * blocked event loop cannot starve them.
 *
 * They take turns on one connection. Behind a pooler there is a second, direct one for the lock and the
 * watch. When the main thread has made no turn for `stallMs`, all of this stops until it turns again, and
 * the fleet takes over. The thread writes into shared memory when the last confirmed heartbeat was sent;
 * by that the main thread knows whether it may have been declared dead. So after a freeze, when everything
 * is overdue, the look comes first.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { LAST_MS } from '../../postgres/backoff.js';
import { Connection } from './connection.js';
import { Leases } from './leases.js';
import {
  confirmedAgoMs,
  type FromKeeper,
  type KeeperSetup,
  monotonicMs,
  SLOT,
  type Tell,
  type ToKeeper,
} from './protocol.js';
import { type Task, Turns } from './turns.js';
import { Watch } from './watch.js';

const SHORTEST_TIMEOUT_MS = 1_000;
/** How often the main thread is checked. Checks that lie much further apart: this thread was frozen, too. */
const CHECK_MS = 1_000;

const port = parentPort;
if (!port) throw new Error('the keeper runs as a worker thread only');
const setup = workerData as KeeperSetup;
const shared = new BigInt64Array(setup.shared);
const load = (slot: number) => Number(Atomics.load(shared, slot));
const names = { schema: setup.schema, queue: setup.queues[0] as string };
const tell: Tell = (kind, ...args) => port.postMessage({ kind, args } satisfies FromKeeper);
let locks = setup.liveness && (!setup.pooled || setup.directUrl !== null);
let workerId = setup.workerId;
let dead = false;

function report(what: string, error: unknown): void {
  const { code } = error as { code?: unknown };
  const message = error instanceof Error ? error.message : String(error);
  tell('failed', what, message, typeof code === 'string' ? code : null);
}

function lockIsOff(): void {
  locks = false;
  report(
    'holding the liveness lock',
    'The liveness lock is off, because the connection goes through a pooler and has no session of its ' +
      'own. If this process is killed, the others notice by its heartbeats only, after the TTL. ' +
      'Name a direct connection as listenUrl.',
  );
  tell('watched');
}

const main = { turns: load(SLOT.turns), turnedAt: monotonicMs(), checkedAt: monotonicMs() };
let stalled = false;

/** A main thread that made no turn for `stallMs` is stalled. A freeze of the whole process is no stall. */
function checkMain(): void {
  const now = monotonicMs();
  const turns = load(SLOT.turns);
  if (turns !== main.turns || now - main.checkedAt > 3 * CHECK_MS) main.turnedAt = now;
  main.turns = turns;
  main.checkedAt = now;
  const before = stalled;
  stalled = now - main.turnedAt > setup.stallMs;
  if (!stalled || before) return;
  const text = `no turn of the event loop for ${setup.stallMs} ms: leases and heartbeat were given up`;
  report('the main thread made no progress', text);
}
setInterval(checkMain, CHECK_MS).unref();

/** A dead worker waits for its new id, a stalled one for its main thread. */
function paused(): boolean {
  checkMain();
  return stalled || dead;
}

function declaredDead(id: string): void {
  if (id !== workerId || dead) return;
  dead = true;
  leases.clear();
  tell('dead', id);
}

function confirmed(id: string, sentAt: number): void {
  if (id !== workerId) return;
  Atomics.store(shared, SLOT.confirmedAt, BigInt(Math.floor(sentAt)));
  tell('beat', id);
}

const metadata = () => ({
  ...setup.metadata,
  load: { running: load(SLOT.running), held: load(SLOT.held) },
});

function connectionTo(url: string, pooled: boolean): Connection {
  const thirdMs = Math.floor(Math.min(setup.leaseMs, setup.ttlMs) / 3);
  return new Connection({
    url,
    pooled,
    prepare: setup.prepare,
    schema: setup.schema,
    timeoutMs: Math.max(SHORTEST_TIMEOUT_MS, thirdMs),
    locks: () => locks && !pooled,
    foundPooler: lockIsOff,
  });
}

/** A look that takes the lock judges others by theirs; one that beats is the heartbeat. */
function lookOn(connection: Connection, does: { lock: boolean; beat: boolean }): Task {
  const watch = new Watch({
    connection,
    names,
    heartbeatMs: setup.heartbeatMs,
    locks: () => locks && does.lock,
    workerId: () => workerId,
    metadata,
    confirmedAgoMs: () => (does.beat ? confirmedAgoMs(shared) : 0),
    confirmed,
    declaredDead,
    tell,
  });
  return { what: 'heartbeat and watch', run: (db) => watch.look(db) };
}

const leases = new Leases({ ...setup, workerId: () => workerId, tell });
const renew: Task = {
  what: 'renewing leases',
  run: async (db) => ((await leases.renew(db)) ? 0 : setup.renewMs / 4),
};
const turnsOn = (connection: Connection, tasks: Task[]) =>
  new Turns({ connection, tasks, paused, error: report });

const own = connectionTo(setup.connectionString, setup.pooled);
const connections = [own];
const turns = [turnsOn(own, [lookOn(own, { lock: !setup.pooled, beat: true }), renew])];
if (locks && setup.pooled) {
  const direct = connectionTo(setup.directUrl as string, false);
  connections.push(direct);
  turns.push(turnsOn(direct, [lookOn(direct, { lock: true, beat: false })]));
}
if (!locks) tell('watched');

async function stop(): Promise<void> {
  for (const one of turns) one.stop();
  await Promise.all(connections.map((one) => one.close(LAST_MS)));
  port?.close();
}

/** Be seen at once under the new id: the registration may have waited longer than a TTL. */
function identify(id: string): void {
  workerId = id;
  dead = false;
  leases.clear();
  for (const one of turns) one.hurry();
}

port.on('message', (message: ToKeeper) => {
  const { kind } = message;
  if (kind === 'hold') leases.hold(message);
  else if (kind === 'left') leases.left(message);
  else if (kind === 'identity') identify(message.workerId);
  else void stop();
});
