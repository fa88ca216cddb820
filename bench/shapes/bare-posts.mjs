// What the machine does without Holdfast and without a database: the same signed requests to the same receivers, from a loop
// with a connection for each that is under way. Webhooks cannot be quicker than that.
import { createHmac } from 'node:crypto';
import http from 'node:http';
import { now } from '../workflows/clock.mjs';

const KEY = Buffer.alloc(32, 'k');

function post(agent, port, orderId) {
  const data = { at: now(), orderId, text: 'x'.repeat(200) };
  const body = JSON.stringify({ type: 'order.paid', timestamp: new Date().toISOString(), data });
  const timestamp = Math.floor(Date.now() / 1_000);
  const signed = createHmac('sha256', KEY).update(`msg_${orderId}.${timestamp}.${body}`);
  const headers = {
    ...{ 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) },
    ...{ 'webhook-id': `msg_${orderId}`, 'webhook-timestamp': String(timestamp) },
    'webhook-signature': `v1,${signed.digest('base64')}`,
  };
  return new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port, path: '/', method: 'POST', agent, headers };
    const sent = http.request(options, (response) => response.resume().on('end', resolve));
    sent.on('error', reject).end(body);
  });
}

/** How many a second, so many at once. */
export async function barePosts(port, { count, atOnce }) {
  const agent = new http.Agent({ keepAlive: true, maxFreeSockets: atOnce });
  let next = 0;
  const loop = async () => {
    while (next < count) await post(agent, port, next++);
  };
  const began = now();
  await Promise.all(Array.from({ length: atOnce }, loop));
  const ms = now() - began;
  agent.destroy();
  return (count / ms) * 1_000;
}
