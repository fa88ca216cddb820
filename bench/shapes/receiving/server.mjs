// A server that takes webhooks, with Holdfast's defaults. It says where it listens.
import { createServer } from 'node:http';
import { holdfast, job } from '../../../packages/holdfast/dist/index.js';
import { receive, standardWebhooks } from '../../../packages/holdfast/dist/receive.js';

const { url, secret, rows } = JSON.parse(process.argv[2]);
const hf = holdfast({ connectionString: url, log: 'error' });
await hf.migrate();
const hook = receive(hf, job('received'), {
  verify: standardWebhooks(secret),
  ...(rows && {
    within: (tx, { id }) => tx.query('INSERT INTO bench_events (id) VALUES ($1)', [id]),
  }),
});
const server = createServer(hook.node).listen(0, '127.0.0.1', () =>
  process.send({ port: server.address().port }),
);
process.on('message', () => process.send({ stats: hook.stats, cpu: process.cpuUsage() }));
process.on('disconnect', () => process.exit(0));
