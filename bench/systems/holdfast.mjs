// Holdfast, through its public API and with its defaults: there is no faster configuration to turn
// on. Order per key has a queue of its own. A worker handles one of the two queues.
import pg from 'pg';
import { holdfast as connect, job } from '../../packages/holdfast/dist/index.js';

const ORDERED = 'ordered';
const noop = job('noop');
const keyed = job('keyed', { queue: ORDERED });
const item = ({ payload, key }) =>
  key ? keyed.item(payload, { partitionKey: key }) : noop.item(payload);

export const system = {
  name: 'holdfast',
  package: null,
  postgres: true,
  schema: 'holdfast',
  configurations: {
    default: { says: 'no options', source: 'docs/options.md', options: {} },
    steady: {
      says: 'concurrency 16; in the part steady only',
      source: 'docs/options.md',
      options: { concurrency: 16 },
    },
  },
  tables: ['holdfast.inbox', 'holdfast.ordered'],
  emptied: [
    'holdfast.inbox',
    'holdfast.inbox_archive',
    'holdfast.ordered',
    'holdfast.ordered_archive',
  ],
  busy: `SELECT EXISTS (SELECT FROM holdfast.inbox) OR EXISTS (SELECT FROM holdfast.ordered) AS busy`,

  async prepare(url) {
    const hf = connect({ connectionString: url });
    await hf.migrate();
    await hf.createQueue(ORDERED, { ordering: 'key' });
    await hf.close();
  },

  /**
   * Workers that were killed with their process are forgotten, as they would be after half a
   * minute.
   */
  async rest(admin) {
    await admin.query("UPDATE holdfast.workers SET status = 'dead' WHERE status <> 'dead'");
  },

  async producer(url, { connections }) {
    const pool = new pg.Pool({ connectionString: url, max: connections });
    pool.on('error', () => {});
    const hf = connect({ connectionString: url, pool });
    return {
      one: (payload) => hf.enqueue(noop, payload),
      inTransaction: (client, payload) => hf.enqueue(noop, payload, { tx: client }),
      many: (items) => hf.enqueueMany(items.map(item)),
      async close() {
        await hf.close();
        await pool.end();
      },
    };
  },

  async worker(url, { configuration, handle, concurrency, ordered }) {
    const hf = connect({ connectionString: url, log: 'warn' });
    let ready = () => {};
    const started = new Promise((resolve) => {
      ready = resolve;
    });
    const onEvent = ({ kind }) => kind === 'started' && ready();
    const options = {
      handleSignals: false,
      onEvent,
      ...this.configurations[configuration].options,
      ...(concurrency && { concurrency }),
    };
    const worker = hf
      .worker(options)
      .handle(ordered ? keyed : noop, ({ payload }) => handle(payload));
    const running = worker.run();
    await Promise.race([started, running]);
    return {
      async stop() {
        await worker.stop({ grace: 500 });
        await running;
        await hf.close();
      },
    };
  },
};
