// OpenWorkflow with its defaults, and as many runs at once as are measured.
import { OpenWorkflow } from 'openworkflow';
import { BackendPostgres } from 'openworkflow/postgres';
import { now } from '../clock.mjs';

const bodies = (tell) => ({
  async steps({ input: { count, value }, step }) {
    const from = now();
    for (let n = 0; n < count; n++) await step.run({ name: `step ${n}` }, () => value);
    tell({ kind: 'ended', from, to: now() });
  },
  async first({ step }) {
    await step.run({ name: 'first' }, () => tell({ kind: 'step', at: now() }) ?? null);
  },
  async signalled({ run, step }) {
    await step.run({ name: 'ready' }, () => tell({ kind: 'ready' }) ?? null);
    await step.waitForSignal({ signal: run.id });
    await step.run({ name: 'next' }, () => tell({ kind: 'step', at: now() }) ?? null);
  },
});

export const system = {
  name: 'openworkflow',
  package: 'openworkflow',
  schema: 'openworkflow',
  tables: ['step_attempts'],

  async prepare(url) {
    const backend = await BackendPostgres.connect(url);
    await backend.stop();
  },

  async client(url) {
    const backend = await BackendPostgres.connect(url);
    const ow = new OpenWorkflow({ backend });
    return {
      start: async (name, input = {}) => (await ow.runWorkflow({ name }, input)).workflowRun.id,
      signal: (id) => ow.sendSignal({ signal: id, data: null }),
      close: () => backend.stop(),
    };
  },

  async worker(url, tell, { concurrency = 10 }) {
    const backend = await BackendPostgres.connect(url);
    const ow = new OpenWorkflow({ backend });
    for (const [name, body] of Object.entries(bodies(tell))) ow.defineWorkflow({ name }, body);
    await ow.newWorker({ concurrency }).start();
  },
};
