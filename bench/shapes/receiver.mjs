// Receivers of webhooks in a process of their own: each port is an endpoint that answers after `ms`, or never. They say when
// each message was sent (its data has the moment) and when it came.
import { createServer } from 'node:http';
import { now } from '../workflows/clock.mjs';

const seen = [];
let count = 0;
let goal = Number.POSITIVE_INFINITY;

function serve(ms) {
  const server = createServer((request, response) => {
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => {
      const at = now();
      if (ms === null) return;
      const { data } = JSON.parse(Buffer.concat(parts).toString());
      seen.push(at - data.at);
      setTimeout(() => response.writeHead(204).end(), ms);
      if (++count === goal) process.send({ kind: 'all', at, delays: seen.splice(0) });
    });
  });
  server.keepAliveTimeout = 60_000;
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve(server.address().port));
  });
}

process.on('disconnect', () => process.exit());
process.on('message', async ({ kind, delays, wanted }) => {
  if (kind === 'serve') {
    const ports = [];
    for (const ms of delays) ports.push(await serve(ms));
    process.send({ kind: 'ports', ports });
  }
  if (kind === 'wait') {
    [count, goal] = [0, wanted];
    seen.length = 0;
    process.send({ kind: 'waits' });
  }
});
process.send({ kind: 'up' });
