// The outbox into NATS JetStream, on one machine: the relay is a process of its own, and so are the broker and Postgres. Each run
// reads the stream to its end: every event once, in the order of its key.
import { fork, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { holdfast } from '../../packages/holdfast/dist/index.js';
import { outbox } from '../../packages/holdfast/dist/outbox.js';
import { measured, median, percentile, plain } from '../statistics.mjs';
import { now } from '../workflows/clock.mjs';

const RELAY = fileURLToPath(new URL('./outbox/relay.mjs', import.meta.url));
const CLIENTS = fileURLToPath(new URL('../../test/brokers/', import.meta.url));
const KEYS = 1_000;
/** Of the relay: as many messages as the broker answers in about ten milliseconds. */
const CONCURRENCY = 100;

function ensureClients() {
  if (existsSync(`${CLIENTS}node_modules/.package-lock.json`)) return;
  const args = ['install', '--no-save', '--no-audit', '--no-fund', '--loglevel=error'];
  const { status } = spawnSync('npm', args, { cwd: CLIENTS, stdio: ['ignore', 2, 2] });
  if (status !== 0) throw new Error(`npm ${args.join(' ')} failed in ${CLIENTS}`);
}

/** Every event of the stream, by key. */
async function read(port) {
  const { openNats } = await import('../../test/brokers/clients.mjs');
  const { jetstream, manager, close } = await openNats(port);
  const { state } = await (await manager()).streams.info('EVENTS');
  const byKey = new Map();
  const consumer = await jetstream.consumers.get('EVENTS');
  for await (const message of await consumer.consume({ max_messages: 5_000 })) {
    const key = message.headers.get('holdfast-key');
    const seen = byKey.get(key) ?? byKey.set(key, []).get(key);
    seen.push(message.json().n);
    if (message.seq === state.last_seq) break;
  }
  await close();
  return byKey;
}

/** Of how many keys the stream has something else than each event once, in order. */
async function wrongKeys(port, each) {
  const byKey = await read(port);
  let wrong = KEYS - byKey.size;
  for (const [key, seen] of byKey)
    if (seen.length !== each(key) || seen.some((n, at) => n !== at)) wrong++;
  return wrong;
}

/** `each`: when each event was acknowledged, and not only how many were. */
async function startRelay(url, port, each = false) {
  const child = fork(RELAY, [JSON.stringify({ url, port, each, concurrency: CONCURRENCY })]);
  const acks = new Map();
  let [acked, at] = [0, 0];
  child.on('message', (message) => {
    if (message.kind !== 'acks') return;
    acked = message.count;
    at = message.at;
    for (const [id, when] of message.acks) acks.set(id, when);
  });
  const next = async (kind) => {
    for (;;) {
      const [message] = await once(child, 'message');
      if (message.kind === kind) return message;
    }
  };
  await next('ready');
  return {
    acks,
    lastAt: () => at,
    async go() {
      child.send('go');
      await next('started');
    },
    async until(count, limitMs = 120_000) {
      const end = now() + limitMs;
      while (acked < count) {
        if (now() > end) throw new Error(`${acked} of ${count} events were acknowledged`);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    },
    async stop() {
      const gone = once(child, 'exit');
      child.kill('SIGKILL');
      await gone;
    },
  };
}

async function backlog(url, port, count) {
  const hf = holdfast({ connectionString: url });
  const events = outbox(hf);
  await events.create();
  for (let n = 0; n < count; n += 10_000) {
    const some = Array.from({ length: Math.min(10_000, count - n) }, (_, at) => ({
      type: 'order.placed',
      key: `order:${(n + at) % KEYS}`,
      data: { n: Math.floor((n + at) / KEYS) },
    }));
    await events.publish(some);
  }
  await hf.close();
  const relay = await startRelay(url, port);
  const began = now();
  await relay.go();
  await relay.until(count);
  const rate = count / ((relay.lastAt() - began) / 1_000);
  await relay.stop();
  return { rate, wrong: await wrongKeys(port, () => count / KEYS) };
}

async function steady(url, port, { rate, forMs }) {
  const hf = holdfast({ connectionString: url });
  const events = outbox(hf);
  await events.create();
  const relay = await startRelay(url, port, true);
  await relay.go();
  const sent = new Map();
  const open = new Set();
  const began = now();
  let n = 0;
  while (now() - began < forMs) {
    for (; n < ((now() - began) / 1_000) * rate; n++) {
      const calledAt = now();
      const data = { n: Math.floor(n / KEYS) };
      const call = events.publish({ type: 'order.placed', key: `order:${n % KEYS}`, data });
      const written = call.then(({ id }) => {
        sent.set(id, { calledAt, committedAt: now() });
        open.delete(written);
      });
      open.add(written);
    }
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await Promise.all(open);
  await relay.until(n);
  await relay.stop();
  await hf.close();
  // The first second is for warming up.
  const kept = [...sent].filter(([, { calledAt }]) => calledAt > began + 1_000);
  const ms = kept.map(([id, { committedAt }]) => Math.max(0, relay.acks.get(id) - committedAt));
  const whole = kept.map(([id, { calledAt }]) => relay.acks.get(id) - calledAt);
  return {
    ms,
    whole,
    wrong: await wrongKeys(port, (key) => Math.floor((n - 1 - Number(key.slice(6))) / KEYS) + 1),
  };
}

async function onNats(work) {
  const { startNats } = await import('./outbox/nats.mjs');
  const broker = await startNats();
  try {
    return await work(broker.port);
  } finally {
    await broker.stop();
  }
}

export async function run({ fresh, rounds, size, figure, fact, say }) {
  if (spawnSync('nats-server', ['--version']).status !== 0) {
    say(
      '*** outbox: SKIPPED, there is no nats-server on the PATH (apt-get install nats-server) ***',
    );
    figure('shapes.outbox', 'skipped: no nats-server', 'to run', false);
    return;
  }
  ensureClients();
  const count = size(100_000, 20_000);
  const found = { backlog: [], steady: [] };
  for (let n = 0; n < rounds(3, 1); n++)
    found.backlog.push(await onNats(async (port) => backlog(await fresh(), port, count)));
  const load = { rate: 1_000, forMs: size(16_000, 6_000) };
  for (let n = 0; n < rounds(3, 1); n++)
    found.steady.push(await onNats(async (port) => steady(await fresh(), port, load)));
  const rates = found.backlog.map(({ rate }) => rate);
  figure('shapes.outbox_backlog_per_s', measured(rates), '>= 8,000', median(rates) >= 8_000);
  const of = (part, kind = 'ms') => found.steady.map((one) => percentile(one[kind], part));
  figure('shapes.outbox_commit_to_ack_p50_ms', measured(of(0.5)), '<= 8', median(of(0.5)) <= 8);
  figure('shapes.outbox_commit_to_ack_p99_ms', measured(of(0.99)), '<= 40', median(of(0.99)) <= 40);
  fact('shapes.outbox_call_to_ack_p50_ms', measured(of(0.5, 'whole')));
  fact('shapes.outbox_call_to_ack_p99_ms', measured(of(0.99, 'whole')));
  const wrong = [...found.backlog, ...found.steady].reduce((sum, one) => sum + one.wrong, 0);
  figure('shapes.outbox_keys_out_of_order', plain(wrong), '0', wrong === 0);
}
