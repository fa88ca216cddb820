// graphile-worker. Its default runs one job at a time and fetches each from the database. The
// fastest configuration is the one of its own performance page: concurrency 24, a pool of 25, a
// local queue of 500 jobs, completions and failures in batches without delay.
import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import pg from 'pg';

const logger = new Logger(() => () => {});
const spec = ({ payload, key }) => ({
  identifier: 'noop',
  payload,
  // A named queue is graphile-worker's order per key: its jobs run one after the other.
  ...(key && { queueName: key }),
});

export const system = {
  name: 'graphile-worker',
  package: 'graphile-worker',
  postgres: true,
  schema: 'graphile_worker',
  configurations: {
    default: {
      says: 'no options: concurrentJobs 1, each job fetched and completed by itself',
      source: 'https://worker.graphile.org/docs/config',
      options: {},
    },
    fastest: {
      says: 'concurrentJobs 24, maxPoolSize 25, localQueue.size 500, completeJobBatchDelay 0, failJobBatchDelay 0',
      source: 'https://worker.graphile.org/docs/performance',
      options: {
        concurrentJobs: 24,
        maxPoolSize: 25,
        localQueue: { size: 500 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
      },
    },
    steady: {
      says: 'concurrentJobs 16; in the part steady only',
      source: 'https://worker.graphile.org/docs/config',
      options: { concurrentJobs: 16 },
    },
    // For order per key only: a queue's next job is seen at the next poll, every two seconds by
    // default.
    polling: {
      says: 'pollInterval 1 (ms), no local queue; in the part order only',
      source: 'https://worker.graphile.org/docs/config',
      options: { pollInterval: 1 },
    },
  },
  tables: ['graphile_worker._private_job_queues', 'graphile_worker._private_jobs'],
  emptied: ['graphile_worker._private_job_queues', 'graphile_worker._private_jobs'],
  busy: 'SELECT EXISTS (SELECT FROM graphile_worker._private_jobs) AS busy',

  async prepare(url) {
    const utils = await makeWorkerUtils({ connectionString: url, logger });
    await utils.migrate();
    await utils.release();
  },

  async producer(url, { connections }) {
    const pgPool = new pg.Pool({ connectionString: url, max: connections });
    pgPool.on('error', () => {});
    pgPool.on('connect', (client) => client.on('error', () => {}));
    const utils = await makeWorkerUtils({ pgPool, logger });
    return {
      one: (payload) => utils.addJob('noop', payload),
      inTransaction: (client, payload) =>
        client.query('SELECT graphile_worker.add_job($1, $2)', ['noop', payload]),
      many: (items) => utils.addJobs(items.map(spec)),
      async close() {
        await utils.release();
        await pgPool.end();
      },
    };
  },

  async worker(url, { configuration, handle, concurrency }) {
    const { options } = this.configurations[configuration];
    const runner = await run({
      preset: {
        worker: {
          connectionString: url,
          logger,
          ...options,
          ...(concurrency && { concurrentJobs: concurrency }),
        },
      },
      noHandleSignals: true,
      taskList: { noop: (payload) => handle(payload) },
    });
    // Killed workers end here with an error that nobody has to see.
    runner.promise.catch(() => {});
    return { stop: () => runner.stop() };
  },
};
