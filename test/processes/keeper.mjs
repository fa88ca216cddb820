/**
 * A process with a keeper and nothing else: no claims and no handlers. It registers as a worker, tells the
 * parent what its keeper reports, and does as it is told. As in a real worker, a listener's session holds the
 * liveness lock, too.
 */
import { existsSync } from 'node:fs';
import { holdLiveness } from '../../packages/holdfast/build/fleet/liveness.js';
import { lockKeyOf, register } from '../../packages/holdfast/build/fleet/registry.js';
import { newListener } from '../../packages/holdfast/build/postgres/connect/listen.js';
import { enginePool } from '../../packages/holdfast/build/postgres/connect/pool.js';
import { engineExecutor } from '../../packages/holdfast/build/postgres/queryable.js';
import { newKeeper } from '../../packages/holdfast/build/worker/lease/keeper.js';
import { monotonicMs } from '../../packages/holdfast/build/worker/lease/protocol.js';

const { url, setup = {} } = JSON.parse(process.argv[2]);
const names = { schema: 'holdfast', queue: 'inbox' };
const log = { debug() {}, info() {}, warn() {}, error() {} };
const pool = enginePool({ connectionString: url }, 1, log);
const db = engineExecutor(pool, { prepare: true });
let lives = 0;
let thread = null;
process.on('worker', (started) => {
  thread = started;
});

const tell = (message) => process.connected && process.send(message);

async function enter() {
  const id = `keeper-${process.pid}-${++lives}`;
  await register(db, names, { id, lockKey: lockKeyOf(id), handles: {}, metadata: {} });
  return id;
}

const registeredAt = monotonicMs();
let workerId = await enter();
const listener = newListener({
  address: { connectionString: url },
  channels: () => [`keeper_${process.pid}`],
  prepare: (session) => holdLiveness(session, names, workerId),
  up() {},
  down() {},
  heard() {},
  call: async () => undefined,
  reportError() {},
});
listener.start();

const keeper = newKeeper(
  {
    address: { connectionString: url },
    asksPasswords: false,
    pooled: false,
    direct: null,
    livenessLock: true,
    schema: 'holdfast',
    queues: ['inbox'],
    workerId,
    registeredAt,
    metadata: { note: 'kept' },
    leaseMs: 90_000,
    renewMs: 30_000,
    heartbeatMs: 10_000,
    ttlMs: 30_000,
    stallMs: 90_000,
    prepare: true,
    ...setup,
  },
  {
    ready: () => tell({ kind: 'ready' }),
    lost: (_queue, jobs) => tell({ kind: 'lost', keys: jobs.map(({ id }) => id) }),
    dead: (id) => tell({ kind: 'dead', workerId: id }),
    gone: (ids) => tell({ kind: 'gone', keys: ids }),
    epoch: (epoch) => tell({ kind: 'epoch', generation: epoch }),
    drainAsked: () => tell({ kind: 'drain-asked' }),
    beat: (id) => tell({ kind: 'beat', workerId: id }),
    error: (what, error) => tell({ kind: 'error', what, message: error.message }),
    load: () => ({
      ...{ running: 3, held: 7, attempts: { inbox: { failed: 2, completed: 5 } } },
      ...{ trouble: null, queues: {} },
    }),
  },
);

await keeper.start();

/** Says whenever the worker may not act any more, or may act again. */
let alive = keeper.aliveForMs() >= 0;
tell({ kind: alive ? 'alive' : 'unsure' });
setInterval(() => {
  if (keeper.aliveForMs() >= 0 === alive) return;
  alive = !alive;
  tell({ kind: alive ? 'alive' : 'unsure' });
}, 1).unref();

const commands = {
  hold: ({ ids, generations }) => {
    const jobs = ids.map((id, index) => ({ id, generation: generations[index], batch: null }));
    keeper.hold('inbox', jobs);
    tell({ kind: 'holding' });
  },
  spin: ({ untilFile }) => {
    tell({ kind: 'spinning' });
    while (!existsSync(untilFile));
    tell({ kind: 'spun' });
  },
  'kill-thread': async () => {
    await thread.terminate();
    tell({ kind: 'thread-killed' });
  },
  reregister: async () => {
    workerId = await enter();
    keeper.identify(workerId);
    tell({ kind: 'reregistered', workerId, generation: Math.sign(keeper.aliveForMs()) });
    listener.restart();
  },
};
process.on('message', (command) => commands[command.do](command));
process.on('disconnect', () => process.exit(0));

await keeper.watched(10_000);
tell({ kind: 'watched', workerId });
