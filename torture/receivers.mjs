// The systems at the other end: a sink of events and receivers of webhooks, as real HTTP servers in the harness's own
// process. They write down what they take before they answer, and answer badly now and then, or all the time in a fault.
import { createHmac } from 'node:crypto';
import { createServer } from 'node:http';
import { randomOf } from './random.mjs';

/** Of a receiver that is well. `lose` takes the request and resets the connection, `hang` never answers. */
const MISHAPS = [
  ['lose', 0.01],
  ['fail', 0.01],
  ['busy', 0.004],
  ['hang', 0.004],
];
/** After the secret that replaced it was made, beyond the overlap. */
const LATE_MS = 12_000;

class Receiver {
  /** ok, fail, busy, gone, hang, lose or refuse */
  mode = 'ok';
  /** Requests and connections that were treated badly. */
  touched = 0;

  constructor(name, random, take) {
    Object.assign(this, { name, random, take });
    this.server = createServer((request, response) => this.#answer(request, response));
    this.server.on('connection', (socket) => {
      socket.on('error', () => {});
      if (this.mode !== 'refuse') return;
      this.touched++;
      socket.resetAndDestroy();
    });
  }

  turn(mode) {
    this.mode = mode;
    if (mode === 'refuse') this.server.closeAllConnections();
  }

  #manner() {
    if (this.mode !== 'ok') return this.mode;
    let at = this.random.next();
    for (const [manner, share] of MISHAPS) {
      at -= share;
      if (at < 0) return manner;
    }
    return 'ok';
  }

  async #answer(request, response) {
    const chunks = [];
    try {
      for await (const chunk of request) chunks.push(chunk);
    } catch {
      return;
    }
    const manner = this.#manner();
    if (manner !== 'ok') this.touched++;
    const took =
      manner === 'ok' || manner === 'lose' || (manner === 'hang' && this.random.chance(0.5));
    this.take(
      { headers: request.headers, body: Buffer.concat(chunks).toString() },
      { took, manner },
    );
    if (manner === 'hang') return;
    if (manner === 'lose' || manner === 'refuse') return request.socket.resetAndDestroy();
    const status = { ok: 204, fail: 500, busy: 429, gone: 410 }[manner];
    response.writeHead(status, manner === 'busy' ? { 'retry-after': '1' } : {}).end();
  }

  async open() {
    await new Promise((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    this.url = `http://127.0.0.1:${this.server.address().port}/`;
    return this;
  }

  async close() {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

/** Takes events, as CloudEvents in binary mode. */
export function openSink(history, seed) {
  return new Receiver('sink', randomOf(`${seed}/sink`), ({ headers, body }, { took, manner }) => {
    const { op, i, n } = JSON.parse(body);
    const facts = { id: headers['ce-id'], key: headers['ce-partitionkey'], of: op, i, n };
    history.record('sink', 'note', { ...facts, fence: Number(headers['ce-fence']), took, manner });
  }).open();
}

const signed = (secret, text) =>
  `v1,${createHmac('sha256', Buffer.from(secret.slice('whsec_'.length), 'base64'))
    .update(text)
    .digest('base64')}`;

/** Takes webhooks, and verifies each by the secrets that it knows. */
export async function openHook(history, seed, name) {
  const secrets = [];
  const receiver = new Receiver(
    name,
    randomOf(`${seed}/${name}`),
    ({ headers, body }, { took, manner }) => {
      const {
        'webhook-id': id,
        'webhook-timestamp': at,
        'webhook-signature': given = '',
      } = headers;
      const fits = ({ secret, until }) =>
        Date.now() < until && given.split(' ').includes(signed(secret, `${id}.${at}.${body}`));
      const { data } = JSON.parse(body);
      const facts = { endpoint: name, id, of: data.op, key: data.key, n: data.n, took, manner };
      const age = Date.now() / 1_000 - Number(at);
      history.record('hook', 'note', { ...facts, valid: secrets.some(fits), age });
    },
  );
  /** The one before it is good for so long. */
  receiver.learn = (secret, overlapMs = 0) => {
    const until = Date.now() + overlapMs + LATE_MS;
    for (const one of secrets) one.until = Math.min(one.until, until);
    secrets.push({ secret, until: Number.POSITIVE_INFINITY });
  };
  return receiver.open();
}
