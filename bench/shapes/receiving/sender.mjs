// Senders of signed webhooks on connections that stay open: each sends the next one when the last is answered. Written on
// sockets, because a client of HTTP would take more of the two cores than the server that is measured.
import { createHmac } from 'node:crypto';
import { connect } from 'node:net';

const BODY = JSON.stringify({
  type: 'invoice.paid',
  timestamp: '2026-11-19T12:00:00Z',
  data: { invoice: 'in_1PgafyB7WZ01zgkW', amount: 1999, currency: 'eur', lines: [1, 2, 3] },
});

export const SECRET = `whsec_${Buffer.alloc(24, 7).toString('base64')}`;
const KEY = Buffer.alloc(24, 7);

function requestOf(id) {
  const time = Math.floor(Date.now() / 1_000);
  const signature = createHmac('sha256', KEY).update(`${id}.${time}.${BODY}`).digest('base64');
  return (
    'POST /hooks HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n' +
    `Content-Length: ${BODY.length}\r\nwebhook-id: ${id}\r\nwebhook-timestamp: ${time}\r\n` +
    `webhook-signature: v1,${signature}\r\n\r\n${BODY}`
  );
}

/** Sends for so long; returns how many were answered with 2xx, how many not, and the milliseconds of each. */
export async function send(port, { connections, forMs, prefix }) {
  const until = performance.now() + forMs;
  const found = { good: 0, bad: 0, ms: [] };
  let next = 0;
  const one = () =>
    new Promise((resolve, reject) => {
      const socket = connect({ port, host: '127.0.0.1', noDelay: true });
      let began = 0;
      let rest = '';
      const go = () => {
        if (performance.now() >= until) {
          socket.end();
          resolve();
          return;
        }
        began = performance.now();
        socket.write(requestOf(`${prefix}_${next++}`));
      };
      socket.once('connect', go);
      socket.once('error', reject);
      socket.on('data', (data) => {
        rest += data.toString('latin1');
        const head = rest.indexOf('\r\n\r\n');
        if (head < 0) return;
        const length = Number(/content-length: (\d+)/i.exec(rest.slice(0, head))?.[1] ?? 0);
        const chunked = /transfer-encoding: chunked/i.test(rest.slice(0, head));
        if (chunked ? !rest.endsWith('0\r\n\r\n') : rest.length < head + 4 + length) return;
        if (/^HTTP\/1\.1 2/.test(rest)) found.good++;
        else found.bad++;
        found.ms.push(performance.now() - began);
        rest = '';
        go();
      });
    });
  await Promise.all(Array.from({ length: connections }, one));
  return found;
}
