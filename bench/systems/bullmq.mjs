// BullMQ on its PostgreSQL backend. Its default runs one job at a time. The fastest configuration
// follows the tuning tips of its PostgreSQL page: concurrency 32 (the upper end of its own table of
// figures), a pool as large, and finished jobs removed at once. It has no order per key outside its
// paid edition, and no way to add a job inside the caller's transaction.
import { createRequire } from 'node:module';
import pg from 'pg';

// Its module build cannot load `pg` by itself; the other build can.
const require = createRequire(import.meta.url);
const { Queue, Worker, createPostgresBackend, runMigrations } = require('bullmq');

const QUEUE = 'bench';
const failing = (error) => console.error(`bullmq: ${error.message}`);

export const system = {
  name: 'bullmq',
  package: 'bullmq',
  postgres: true,
  unordered: true,
  schema: 'bullmq',
  configurations: {
    default: {
      says: 'no options: concurrency 1, finished jobs kept',
      source: 'https://docs.bullmq.io/guide/postgresql',
      options: {},
    },
    fastest: {
      says: 'concurrency 32, pool of 32, removeOnComplete',
      source: 'https://docs.bullmq.io/guide/postgresql#tuning-tips',
      options: { concurrency: 32, removeOnComplete: { count: 0 } },
    },
  },
  tables: ['bullmq.job'],
  emptied: ['bullmq.job', 'bullmq.event'],
  busy: "SELECT EXISTS (SELECT FROM bullmq.job WHERE state IN ('waiting', 'active', 'delayed')) AS busy",

  async prepare(url) {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await runMigrations(client);
    await client.end();
  },

  async producer(url, { connections }) {
    const connection = { connectionString: url, max: connections };
    const queue = new Queue(QUEUE, { connection }, createPostgresBackend);
    queue.on('error', failing);
    await queue.waitUntilReady();
    return {
      one: (payload) => queue.add('noop', payload),
      inTransaction: null,
      many: (items) => queue.addBulk(items.map(({ payload: data }) => ({ name: 'noop', data }))),
      close: () => queue.close(),
    };
  },

  async worker(url, { configuration, handle, concurrency }) {
    const { options } = this.configurations[configuration];
    const connection = {
      connectionString: url,
      ...(configuration === 'fastest' && { max: 32 }),
    };
    const worker = new Worker(
      QUEUE,
      async ({ data }) => handle(data),
      { connection, ...options, ...(concurrency && { concurrency }) },
      createPostgresBackend,
    );
    worker.on('error', failing);
    await worker.waitUntilReady();
    return { stop: () => worker.close() };
  },
};
