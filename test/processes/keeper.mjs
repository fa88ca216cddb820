/**
 * A process with a keeper and nothing else, for tests of liveness and of the end of a drain: no claims
 * and no handlers. It registers as a worker, tells the parent what its keeper says, and does as it is
 * told: holds jobs that the parent has claimed for it, spins, drains.
 */
import { existsSync } from 'node:fs';
import { lockKeyOf, register } from '../../dist/fleet/registry.js';
import { enginePool } from '../../dist/postgres/pool.js';
import { engineExecutor } from '../../dist/postgres/queryable.js';
import { Keeper } from '../../dist/worker/keeper.js';

const { url, setup = {} } = JSON.parse(process.argv[2]);
const names = { schema: 'holdfast', queue: 'inbox' };
const log = { debug() {}, info() {}, warn() {}, error() {} };
const pool = enginePool({ connectionString: url }, 1, log);
const db = engineExecutor(pool, { prepare: true });
let lives = 0;

const tell = (message) => process.connected && process.send(message);

async function enter() {
  const workerId = `keeper-${process.pid}-${++lives}`;
  const registration = { id: workerId, lockKey: lockKeyOf(workerId), handles: {}, metadata: {} };
  await register(db, names, registration);
  return workerId;
}

const workerId = await enter();
const keeper = new Keeper(
  {
    connectionString: url,
    pooled: false,
    directUrl: null,
    liveness: true,
    handleSignals: false,
    graceMs: 30_000,
    schema: 'holdfast',
    queues: ['inbox'],
    workerId,
    metadata: { note: 'kept' },
    leaseMs: 90_000,
    renewMs: 30_000,
    heartbeatMs: 10_000,
    stallMs: 90_000,
    prepare: true,
    ...setup,
  },
  {
    lost: () => tell({ kind: 'lost' }),
    dead: (id) => tell({ kind: 'dead', workerId: id }),
    gone: (ids) => tell({ kind: 'gone', keys: ids }),
    epoch: (epoch) => tell({ kind: 'epoch', generation: epoch }),
    drainAsked: () => tell({ kind: 'drain-asked' }),
    beat: () => undefined,
    trouble: (what, error) => tell({ kind: 'trouble', what, message: error.message }),
    held: () => [],
    load: () => ({ running: 3, held: 7 }),
  },
);

const commands = {
  hold: ({ ids, generations }) => {
    keeper.hold(
      'inbox',
      ids.map((id, index) => ({ id, generation: generations[index] })),
    );
    tell({ kind: 'holding' });
  },
  spin: ({ untilFile }) => {
    tell({ kind: 'spinning' });
    while (!(untilFile && existsSync(untilFile)));
  },
  drain: ({ graceMs, signalled }) => {
    keeper.drain(graceMs, signalled);
    tell({ kind: 'draining' });
  },
  rebirth: async () => {
    const next = await enter();
    keeper.identify(next);
    tell({ kind: 'reborn', workerId: next });
  },
  sinceSignal: () => tell({ kind: 'sinceSignal', generation: keeper.sinceSignalMs() }),
  stop: async ({ guard, thenSpin }) => {
    await keeper.stop({ guard });
    tell({ kind: 'stopped' });
    while (thenSpin);
    await pool.end();
    process.channel.unref();
  },
};
process.on('message', (command) => commands[command.do](command));
process.on('disconnect', () => process.exit(0));
if (setup.handleSignals) {
  for (const name of ['SIGTERM', 'SIGINT']) process.on(name, () => tell({ kind: 'signal' }));
}

await keeper.watched(10_000);
tell({ kind: 'watched', workerId });
