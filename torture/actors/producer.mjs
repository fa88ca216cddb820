// A producer process of the torture: a steady stream of operations, each of which enqueues a few jobs, mostly with a
// business row in the same transaction. An operation whose outcome is unknown is repeated under the same
// idempotency keys until it is acknowledged. Some are rolled back on purpose, some are repeated although they
// were acknowledged, or while they are under way. The jobs of a key come from one producer, one after the other.
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import pg from 'pg';
import { monotonicMs, openHistory } from '../history.mjs';
import { randomOf } from '../random.mjs';
import { drive } from './flows.mjs';
import { definitions, KEYED, LIMITS, sideQueues } from './jobs.mjs';
import { publishing } from './shapes.mjs';

const config = JSON.parse(process.argv[2]);
const { holdfast, job, workflow } = await import(pathToFileURL(config.product).href);
const history = openHistory(config.folder, config.name);
const random = randomOf(`${config.seed}/${config.name}`);
const jobs = definitions(job, config, workflow);
/** Operations under way at once: enough for the rate, few enough for an outage not to pile up thousands. */
const MAX_OPEN = 12;
const KEYS = config.keys ?? 12;

for (const event of ['unhandledRejection', 'uncaughtException']) {
  process.on(event, (error) => {
    history.record('unhandled', 'note', { event, error: String(error?.stack ?? error) });
    process.exit(70);
  });
}

const limits = { connectionTimeoutMillis: 4_000, query_timeout: 6_000 };
const poolOf = (max) => {
  const made = new pg.Pool({ connectionString: config.url, max, ...limits });
  // One that is cut off while its transaction waits says so to nobody else.
  made.on('connect', (client) => client.on('error', () => {}));
  return made.on('error', () => {});
};
const pool = poolOf(6);
const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const hf = holdfast({ connectionString: config.url, pool, logger: quiet, ...config.holdfast });

/** How often which job is enqueued. */
const WEIGHTS = {
  ...{ pay: 30, mail: 14, long: 1, parent: 6, flaky: 6, step: 23, guarded: 18 },
  ...(config.limits && { capped: 12, paced: 8 }),
  ...(config.flows && { checkout: 25 }),
  ...Object.fromEntries(sideQueues(config.sides).map((type) => [type, 1.5])),
  ...config.weights,
};
const MIX = Object.entries(WEIGHTS);
const WEIGHT = MIX.reduce((sum, [, weight]) => sum + weight, 0);
let crashing = config.crashing === true;

function draw() {
  if (crashing && random.chance(config.crashShare)) return 'crash';
  let at = random.next() * WEIGHT;
  for (const [type, weight] of MIX) {
    at -= weight;
    if (at < 0) return type;
  }
  return 'pay';
}

const payloads = {
  pay: () => ({
    register: random.chance(0.2),
    ms: random.chance(0.2) ? random.integer(1, config.payMs ?? 30) : 0,
  }),
  mail: () => ({
    ms: random.integer(1, config.mailMs ?? 12),
    after: random.chance(0.2) ? random.integer(5, 40) : 0,
  }),
  long: () => ({ ms: random.integer(500, config.longMs ?? 3_000) }),
  parent: () => ({ children: random.integer(1, 3), inTransaction: random.chance(0.5) }),
  flaky: () => ({
    ms: random.integer(1, config.flakyMs ?? 2),
    fails: random.integer(1, 2),
    giveUp: random.chance(0.1),
  }),
  crash: () => {
    const how = random.pick(config.crashes ?? ['abort', 'exit', 'bomb', 'spin']);
    return {
      how,
      ms: config.spinMs ?? 5_000,
      times: random.chance(config.forever ?? 0.15) ? 99 : 1,
    };
  },
  step: () => ({
    ms: random.integer(0, 6),
    fails: random.chance(0.1) ? 1 : 0,
    register: random.chance(0.2),
  }),
  guarded: () => ({ ms: random.integer(0, 6), fails: random.chance(0.1) ? 1 : 0 }),
  checkout: () => ({
    ms: random.integer(0, 20),
    nap: random.chance(0.3) ? random.integer(1, 500) : 0,
    parcels: random.integer(0, 4),
    fails: random.chance(0.15),
    packMs: random.chance(config.packMs ? 0.8 : 0.3) ? random.integer(1, config.packMs ?? 20) : 0,
  }),
};

for (const type of [...Object.keys(LIMITS), ...sideQueues(config.sides)])
  payloads[type] = () => ({ ms: random.integer(0, 40) });
// Now and then one that is still at work when the fleet around it is another.
if (config.limits && config.cappedLong)
  payloads.capped = () => ({
    ms: random.chance(config.cappedLong)
      ? random.integer(2_000, config.cappedMs ?? 8_000)
      : random.integer(0, 40),
  });

/** The next number of each key, and whether an operation of it is under way. */
const lines = Array.from({ length: KEYS }, (_, k) => ({
  key: `${config.name}:${k}`,
  n: 0,
  busy: false,
}));

let operations = 0;
let bursting = false;

/** A backlog is measured by how fast it is worked off: nothing of it waits for long. */
const longestDelay = () => (bursting ? 1_500 : (config.delayMs ?? 1_500));

function nextOperation(type = draw()) {
  const op = `${config.name}-${String(++operations).padStart(6, '0')}`;
  const isKeyed = jobs[type].queue === KEYED;
  const line = isKeyed
    ? lines.filter(({ busy }) => !busy)[0] && random.pick(lines.filter(({ busy }) => !busy))
    : null;
  if (isKeyed && !line) return null;
  const count = type === 'crash' || type === 'long' ? 1 : random.integer(1, config.most ?? 4);
  const items = Array.from({ length: count }, (_, i) => {
    const payload = { op, ...payloads[type](), ...(line && { n: line.n++ }) };
    const options = { idempotencyKey: `${op}#${i}`, ...(line && { partitionKey: line.key }) };
    if (!line && random.chance(0.05)) options.delay = random.integer(50, longestDelay());
    // A build that knows a newer version still meets payloads of the older one.
    return jobs[type].item(payload, options);
  });
  // A line's numbers must be without gaps: only others are rolled back.
  return {
    op,
    type,
    items,
    line,
    rollBack: !line && random.chance(0.04),
    inTransaction: random.chance(config.transactions ?? 0.7),
  };
}

async function transaction(operation) {
  const client = await pool.connect();
  let broken = true;
  try {
    await client.query('BEGIN');
    await client.query(
      'INSERT INTO torture.orders (op, jobs) VALUES ($1, $2) ON CONFLICT DO NOTHING',
      [operation.op, operation.items.length],
    );
    const enqueued = await hf.enqueueMany(operation.items, { tx: client });
    await client.query(operation.rollBack ? 'ROLLBACK' : 'COMMIT');
    broken = false;
    return enqueued;
  } finally {
    client.release(broken);
  }
}

async function perform(operation) {
  const { op, type, items, rollBack } = operation;
  const inTransaction = operation.inTransaction || rollBack;
  for (let attempt = 1; ; attempt++) {
    history.record('enqueue', 'invoke', {
      of: op,
      type,
      jobs: items.length,
      attempt,
      inTransaction,
      rollBack,
    });
    try {
      const enqueued = await (inTransaction ? transaction(operation) : hf.enqueueMany(items));
      const ids = enqueued.map(({ id }) => id);
      if (rollBack) return history.record('enqueue', 'fail', { of: op, ids });
      history.record('enqueue', 'ok', { of: op, type, ids, attempt });
      return ids;
    } catch (error) {
      history.record('enqueue', 'unknown', {
        of: op,
        code: error.code,
        message: String(error.message),
      });
      // Rolled back or never begun: either way nobody asked for it to be there.
      if (rollBack) return history.record('enqueue', 'fail', { of: op, ids: [] });
      await sleep(50 + random.next() * 150);
    }
  }
}

let stopping = false;
let rate = config.rate;
const open = new Set();

function begin(operation) {
  if (operation.line) operation.line.busy = true;
  // As when a client gives up too early and asks again.
  const isDuel = !operation.line && !operation.rollBack && random.chance(config.duels ?? 0.03);
  const asked = isDuel ? Promise.all([perform(operation), perform(operation)]) : perform(operation);
  const done = asked.then(async (ids) => {
    if (operation.type === 'checkout' && !operation.rollBack)
      await drive(
        { hf, pool, jobs, random, history },
        ids.flat().slice(0, operation.items.length),
        {
          ...{ op: operation.op, cancels: random.chance(0.2) },
        },
      );
    if (!operation.rollBack && random.chance(0.05)) await perform(operation);
    if (operation.line) operation.line.busy = false;
    open.delete(done);
  });
  open.add(done);
}

async function produce() {
  let due = monotonicMs();
  while (!stopping) {
    const now = monotonicMs();
    // An outage is not made up for: the offered load stays what it is.
    due = Math.max(due, now - 200);
    while (due <= now && open.size < MAX_OPEN && rate > 0) {
      const operation = nextOperation();
      if (!operation) break;
      begin(operation);
      due += (1_000 * operation.items.length) / rate;
    }
    await sleep(10);
  }
  await Promise.all(open);
}

/** A backlog of so many jobs, as fast as it goes. */
async function burst(count) {
  let left = count;
  bursting = true;
  while (left > 0) {
    const operation = nextOperation(random.pick(['pay', 'mail', 'step', 'guarded', 'pay']));
    if (!operation || open.size >= MAX_OPEN) {
      await Promise.race([...open, sleep(20)]);
      continue;
    }
    left -= operation.items.length;
    begin(operation);
  }
  bursting = false;
  await Promise.all(open);
}

process.on('message', async (command) => {
  if (command.do === 'rate') rate = command.rate;
  if (command.do === 'crash') crashing = command.on && config.crashShare > 0;
  if (command.do === 'burst') {
    await burst(command.count);
    process.send({ kind: 'burst' });
  }
  if (command.do === 'stop') stopping = true;
});
process.on('disconnect', () => process.exit(0));

process.send({ kind: 'started' });
const chance = randomOf(`${config.seed}/${config.name}/shapes`);
await Promise.all([
  produce(),
  config.shapes &&
    publishing({ hf, pool: poolOf(4), random: chance, history }, config, () => ({
      rate,
      stopping,
    })),
]);
history.record('stopped', 'ok', {});
await hf.close();
await pool.end();
process.exit(0);
