/** A server that takes webhooks, to be killed. It says on which port it listens. */

import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { holdfast, job } from './product.mjs';

const { receive, standardWebhooks } = createRequire(import.meta.url)(
  '../../packages/holdfast/dist/cjs/receive.js',
);

const { url, secret } = JSON.parse(process.argv[2]);
const hf = holdfast({ connectionString: url });
const hook = receive(hf, job('paid'), { verify: standardWebhooks(secret) });
const server = createServer(hook.node).listen(0, '127.0.0.1', () =>
  process.send({ kind: 'listening', id: String(server.address().port) }),
);
process.on('disconnect', () => process.exit(0));
