// How an actor enqueues: as fast as it can on a number of connections, in bulk, or at a fixed rate
// that does not wait for anybody. The payload is the same for every system.
import pg from 'pg';
import { became, clock, wait } from './clock.mjs';

const WARM_MS = 150;
/** More than so many enqueues under way: the rate cannot be held, and the trial ends. */
const MAX_UNDER_WAY = 20_000;

const payload = (n) => ({ orderId: n });

/** Each connection enqueues one after the other until the time is over; jobs per second. */
async function loops(connections, ms, enqueue) {
  let counting = false;
  let count = 0;
  let over = false;
  let cold = connections;
  const loop = async () => {
    for (let n = 0; !over; n++) {
      await enqueue(n);
      if (n === 0) cold -= 1;
      if (counting) count += 1;
    }
  };
  const running = Array.from({ length: connections }, loop);
  const failing = Promise.all(running);
  // Every connection is there and has carried something before anything is counted.
  await Promise.race([became(() => cold === 0, 10_000), failing]);
  await wait(WARM_MS);
  counting = true;
  const from = clock();
  await wait(ms);
  counting = false;
  const took = clock() - from;
  over = true;
  await failing;
  return { count, perSecond: (count / took) * 1000 };
}

/** BEGIN, one enqueue, COMMIT: the caller's own transaction. */
async function transactions(producer, url, { connections, ms }) {
  const clients = await Promise.all(
    Array.from({ length: connections }, async () => {
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      return client;
    }),
  );
  const free = [...clients];
  const result = await loops(connections, ms, async (n) => {
    const client = free.pop();
    await client.query('BEGIN');
    await producer.inTransaction(client, payload(n));
    await client.query('COMMIT');
    free.push(client);
  });
  await Promise.all(clients.map((client) => client.end()));
  return result;
}

async function bulk(producer, { size, ms }) {
  const items = Array.from({ length: size }, (_, n) => ({ payload: payload(n) }));
  const { perSecond } = await loops(1, ms, () => producer.many(items));
  return { perSecond: perSecond * size };
}

async function fill(producer, { count, size = 5_000, keys = 0 }) {
  for (let from = 0; from < count; from += size) {
    const length = Math.min(size, count - from);
    await producer.many(
      Array.from({ length }, (_, n) => ({
        payload: payload(from + n),
        ...(keys > 0 && { key: `order:${(from + n) % keys}` }),
      })),
    );
  }
}

/** An open loop: a job is due at its time, whether or not the ones before it are through. */
async function offer(producer, { rate, ms, warmMs = 500 }) {
  const from = clock() + 20;
  const total = Math.round((rate * (warmMs + ms)) / 1000);
  let sent = 0;
  let underWay = 0;
  let failed = 0;
  const ended = () => {
    underWay -= 1;
  };
  while (sent < total && underWay < MAX_UNDER_WAY) {
    const due = Math.min(total, Math.floor(((clock() - from) * rate) / 1000));
    for (; sent < due; sent++) {
      const at = from + (sent * 1000) / rate;
      underWay += 1;
      producer
        .one({ orderId: sent, at, warm: at - from < warmMs })
        .catch(() => {
          failed += 1;
        })
        .finally(ended);
    }
    await wait(1);
  }
  const overloaded = sent < total;
  while (underWay > 0) await wait(5);
  return { sent, failed, overloaded };
}

export async function produce(system, configuration, url, order) {
  const { mode, connections = 10 } = order;
  if (mode.startsWith('bare')) return bareInsert(url, order);
  const producer = await system.producer(url, {
    configuration,
    connections,
    ordered: (order.keys ?? 0) > 0,
  });
  try {
    if (mode === 'one') return await loops(connections, order.ms, (n) => producer.one(payload(n)));
    if (mode === 'transaction') return await transactions(producer, url, { ...order, connections });
    if (mode === 'many') return await bulk(producer, order);
    if (mode === 'fill') return await fill(producer, order);
    if (mode === 'offer') return await offer(producer, order);
    throw new Error(`there is no way to produce called ${mode}`);
  } finally {
    await producer.close();
  }
}

async function bareInsert(url, { mode, connections = 1, ms, size = 1 }) {
  const { bareProducer } = await import('./bare.mjs');
  const producer = await bareProducer(url, connections);
  const { perSecond } = await loops(connections, ms, () => producer.insert(size));
  await producer.close();
  return { perSecond: mode === 'bare-many' ? perSecond * size : perSecond };
}
