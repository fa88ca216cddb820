// pg-boss. Its default looks every two seconds and takes one job. The fastest configuration
// combines what its documentation offers for throughput and for latency: batches, a fetch at once
// after a full batch, several local workers, and LISTEN/NOTIFY for an idle queue.
import { PgBoss } from 'pg-boss';

const ORDERED = 'ordered';
const failing = (error) => console.error(`pg-boss: ${error.message}`);

async function handleAll(jobs, handle) {
  const running = [];
  for (const { data } of jobs) {
    const result = handle(data);
    if (result) running.push(result);
  }
  if (running.length > 0) await Promise.all(running);
}

function fetching(boss, queue, options, handle) {
  let over = false;
  const loop = async () => {
    while (!over) {
      const jobs = await boss.fetch(queue, options);
      if (jobs.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
      else {
        await handleAll(jobs, handle);
        await boss.complete(
          queue,
          jobs.map(({ id }) => id),
        );
      }
    }
  };
  const running = loop().catch(failing);
  return {
    async stop() {
      over = true;
      await running;
      await boss.stop({ graceful: false });
    },
  };
}

export const system = {
  name: 'pg-boss',
  package: 'pg-boss',
  postgres: true,
  schema: 'pgboss',
  queuePerConfiguration: true,
  configurations: {
    default: {
      says: 'no options: one job every two seconds',
      source: 'https://pgboss.io/api/workers',
      options: {},
    },
    fastest: {
      says: 'batchSize 1000, burstWhenBatchFull, localConcurrency 2, useListenNotify with a notify queue',
      source: 'https://pgboss.io/api/workers, https://pgboss.io/api/queues',
      options: { batchSize: 1_000, burstWhenBatchFull: true, localConcurrency: 2 },
    },
    // 16 handlers as one loop with a batch of 16. As 16 loops (localConcurrency 16) each
    // notification wakes all of them: five times the latency and the cost at 400 jobs a second.
    steady: {
      says: 'batchSize 16, burstWhenBatchFull, useListenNotify with a notify queue; in the part steady only',
      source: 'https://pgboss.io/api/workers, https://pgboss.io/api/queues',
      options: { batchSize: 16, burstWhenBatchFull: true },
    },
    // For order per key only: work() waits for its next poll when a batch comes back short, and
    // with one hot key every batch does. A loop of the user's own need not wait.
    fetching: {
      says: "fetch() and complete() in a loop of the user's own, batches of 1000; in the part order only",
      source: 'https://pgboss.io/api/jobs',
      options: { batchSize: 1_000 },
    },
  },
  tables: ['pgboss.job'],
  emptied: ['pgboss.job'],
  busy: "SELECT EXISTS (SELECT FROM pgboss.job WHERE state < 'completed') AS busy",

  async prepare(url) {
    const boss = new PgBoss({ connectionString: url });
    boss.on('error', failing);
    await boss.start();
    await boss.createQueue('default');
    await boss.createQueue('fastest', { notify: true });
    await boss.createQueue('steady', { notify: true });
    await boss.createQueue(ORDERED, { policy: 'key_strict_fifo', notify: true });
    await boss.stop({ graceful: false });
  },

  async producer(url, { connections, configuration, ordered }) {
    // A producer neither schedules nor maintains; that would be work beside what is measured.
    const boss = new PgBoss({
      connectionString: url,
      max: connections,
      supervise: false,
      schedule: false,
    });
    boss.on('error', failing);
    await boss.start();
    const queue = ordered ? ORDERED : configuration;
    const record = ({ payload, key }) => ({ data: payload, ...(key && { singletonKey: key }) });
    return {
      one: (payload) => boss.send(queue, payload),
      inTransaction: (client, payload) =>
        boss.send(queue, payload, {
          db: { executeSql: (text, values) => client.query(text, values) },
        }),
      many: (items) => boss.insert(queue, items.map(record)),
      close: () => boss.stop({ graceful: false }),
    };
  },

  async worker(url, { configuration, handle, concurrency, ordered }) {
    const { options } = this.configurations[configuration];
    const boss = new PgBoss({
      connectionString: url,
      ...(['fastest', 'steady'].includes(configuration) && { useListenNotify: true }),
    });
    boss.on('error', failing);
    await boss.start();
    if (configuration === 'fetching')
      return fetching(boss, ordered ? ORDERED : 'fastest', options, handle);
    await boss.work(
      ordered ? ORDERED : configuration,
      { ...options, ...(concurrency && { batchSize: concurrency }) },
      (jobs) => handleAll(jobs, handle),
    );
    return { stop: () => boss.stop({ graceful: true, timeout: 2_000 }) };
  },
};
