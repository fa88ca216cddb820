// BullMQ on Redis, as a point of reference: another database, whose commits do not wait for the
// disk. It runs only where a `redis-server` is on the PATH; `url` is then that server's.
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';

const QUEUE = 'bench';
const failing = (error) => console.error(`bullmq on redis: ${error.message}`);
const connect = (url) => {
  const redis = new Redis(url, { maxRetriesPerRequest: null });
  redis.on('error', () => {});
  return redis;
};

export const system = {
  name: 'bullmq-redis',
  package: 'bullmq',
  postgres: false,
  unordered: true,
  configurations: {
    default: {
      says: 'no options: concurrency 1, finished jobs kept; Redis with appendonly yes (fsync every second)',
      source: 'https://docs.bullmq.io/guide/going-to-production',
      options: {},
    },
    fastest: {
      says: 'concurrency 100, removeOnComplete; Redis with appendonly yes (fsync every second)',
      source: 'https://docs.bullmq.io/guide/workers/concurrency',
      options: { concurrency: 100, removeOnComplete: { count: 0 } },
    },
  },

  async prepare() {},

  async empty(url) {
    const redis = connect(url);
    await redis.flushall();
    redis.disconnect();
  },

  async busyAt(url) {
    const redis = connect(url);
    const left =
      (await redis.llen(`bull:${QUEUE}:wait`)) + (await redis.llen(`bull:${QUEUE}:active`));
    redis.disconnect();
    return left > 0;
  },

  async producer(url) {
    const connection = connect(url);
    const queue = new Queue(QUEUE, { connection });
    queue.on('error', failing);
    return {
      one: (payload) => queue.add('noop', payload),
      inTransaction: null,
      many: (items) => queue.addBulk(items.map(({ payload: data }) => ({ name: 'noop', data }))),
      async close() {
        await queue.close();
        connection.disconnect();
      },
    };
  },

  async worker(url, { configuration, handle, concurrency }) {
    const { options } = this.configurations[configuration];
    const connection = connect(url);
    const worker = new Worker(QUEUE, async ({ data }) => handle(data), {
      connection,
      ...options,
      ...(concurrency && { concurrency }),
    });
    worker.on('error', failing);
    await worker.waitUntilReady();
    return {
      async stop() {
        await worker.close();
        connection.disconnect();
      },
    };
  },
};
