// DBOS with its defaults. Runs that are measured for their throughput start inside the process that runs them,
// which is its fastest way; those that another process starts go through a queue, which it polls once a second.
import { DBOS, DBOSClient } from '@dbos-inc/dbos-sdk';
import { now } from '../clock.mjs';

const QUEUE = 'bench';
const name = 'bench';
const logLevel = 'error';

function register(tell) {
  const workflows = {
    async steps({ count, value }) {
      const from = now();
      for (let n = 0; n < count; n++) await DBOS.runStep(async () => value, { name: `step ${n}` });
      tell({ kind: 'ended', from, to: now() });
    },
    async first() {
      await DBOS.runStep(async () => tell({ kind: 'step', at: now() }) ?? null, { name: 'first' });
    },
    async signalled() {
      await DBOS.runStep(async () => tell({ kind: 'ready' }) ?? null, { name: 'ready' });
      await DBOS.recv('go', 600);
      await DBOS.runStep(async () => tell({ kind: 'step', at: now() }) ?? null, { name: 'next' });
    },
  };
  return Object.fromEntries(
    Object.entries(workflows).map(([one, body]) => [
      one,
      DBOS.registerWorkflow(body, { name: one }),
    ]),
  );
}

export const system = {
  name: 'dbos',
  package: '@dbos-inc/dbos-sdk',
  schema: 'dbos',
  tables: ['operation_outputs'],

  async prepare(url) {
    DBOS.setConfig({ name, systemDatabaseUrl: url, logLevel, runAdminServer: false });
    await DBOS.launch();
    await DBOS.registerQueue(QUEUE);
    await DBOS.shutdown();
  },

  async client(url) {
    const client = await DBOSClient.create({ systemDatabaseUrl: url });
    return {
      async start(workflowName, input = {}) {
        return (await client.enqueue({ queueName: QUEUE, workflowName }, input)).workflowID;
      },
      signal: (id) => client.send(id, null, 'go'),
      close: () => client.destroy(),
    };
  },

  async worker(url, tell) {
    DBOS.setConfig({ name, systemDatabaseUrl: url, logLevel, runAdminServer: false });
    const workflows = register(tell);
    await DBOS.launch();
    await DBOS.registerQueue(QUEUE);
    return { startHere: (one, input) => DBOS.startWorkflow(workflows[one])(input) };
  },
};
