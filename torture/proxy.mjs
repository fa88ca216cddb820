// A TCP proxy that breaks connections to Postgres in the ways that networks do, and in one that tests need: it
// knows enough of the protocol to cut a connection at a chosen statement, before the server gets it or after
// it was done and before the client learns so.
//
// Each actor has a line of its own, so that faults hit some and not others. A line can be pointed at another server.
import { connect, createServer } from 'node:net';

const [QUERY, PARSE, BIND, EXECUTE, READY, NOTIFICATION] = [...'QPBEZA'].map((letter) =>
  letter.charCodeAt(0),
);

/** Cuts a stream into messages; `untyped` for a client's stream, whose first message has no type. */
export function messageCutter(untyped) {
  let rest = Buffer.alloc(0);
  let first = untyped;
  return (chunk) => {
    const buffer = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk;
    const messages = [];
    let at = 0;
    for (;;) {
      const header = first ? 0 : 1;
      if (buffer.length < at + header + 4) break;
      const end = at + header + buffer.readInt32BE(at + header);
      if (end > buffer.length) break;
      messages.push({ type: first ? 0 : buffer[at], bytes: buffer.subarray(at, end) });
      // An SSL or cancel request is followed by an untyped message too; `pg` sends neither here.
      first = false;
      at = end;
    }
    rest = Buffer.from(buffer.subarray(at));
    return messages;
  };
}

function text(bytes, from) {
  return bytes.toString('utf8', from, bytes.indexOf(0, from));
}

/** Which statement a client's message runs: its text, also when it was prepared earlier. */
export function statementReader() {
  const prepared = new Map();
  let bound = '';
  return ({ type, bytes }) => {
    if (type === QUERY) return text(bytes, 5);
    if (type === PARSE) {
      const name = text(bytes, 5);
      prepared.set(name, text(bytes, 5 + Buffer.byteLength(name) + 1));
    } else if (type === BIND) {
      const portal = text(bytes, 5);
      bound = prepared.get(text(bytes, 5 + Buffer.byteLength(portal) + 1)) ?? '';
    } else if (type === EXECUTE) return bound;
    return null;
  };
}

/**
 * @typedef {object} Cut
 * @property {RegExp} statement
 * @property {'request' | 'answer'} where before the server gets it, or after it has done it
 * @property {number} times
 */

class Connection {
  constructor(line, client) {
    this.line = line;
    this.client = client;
    this.server = connect(line.target.port, line.target.hostname);
    this.swallowing = false;
    this.fromClient = messageCutter(true);
    this.fromServer = messageCutter(false);
    this.statementOf = statementReader();
    for (const socket of [client, this.server]) {
      socket.setNoDelay(true);
      socket.on('error', () => {});
      socket.on('close', () => this.close());
    }
    // A half-closed connection stays open the other way: allowHalfOpen is on.
    client.on('end', () => this.server.end());
    this.server.on('end', () => client.end());
    client.on('data', (chunk) => this.#requested(chunk));
    this.server.on('data', (chunk) => this.#answered(chunk));
  }

  #requested(chunk) {
    if (this.line.silent) return void this.line.touched++;
    for (const message of this.fromClient(chunk)) {
      const statement = this.statementOf(message);
      const cut = statement === null ? null : this.line.takeCut(statement);
      if (cut?.where === 'request') return this.reset();
      if (cut) this.swallowing = true;
      this.#pass(this.server, message.bytes);
    }
  }

  #answered(chunk) {
    if (this.line.silent) return void this.line.touched++;
    for (const { type, bytes } of this.fromServer(chunk)) {
      if (this.swallowing) {
        if (type === READY) return this.reset();
        continue;
      }
      if (type === NOTIFICATION && this.line.deaf) {
        this.line.touched++;
        continue;
      }
      this.#pass(this.client, bytes);
    }
  }

  #pass(to, bytes) {
    if (this.line.delayMs === 0 && !this.delayed) return to.write(bytes);
    if (this.line.delayMs > 0) this.line.touched++;
    // Once delayed, always in line: a later message must not overtake.
    this.delayed ??= { client: Promise.resolve(), server: Promise.resolve() };
    const way = to === this.client ? 'client' : 'server';
    const due = new Promise((resolve) => setTimeout(resolve, this.line.delayMs));
    const before = this.delayed[way];
    this.delayed[way] = due.then(() => before).then(() => to.destroyed || to.write(bytes));
  }

  reset() {
    this.line.touched++;
    this.client.resetAndDestroy();
    this.server.resetAndDestroy();
  }

  close() {
    this.line.connections.delete(this);
    this.client.destroy();
    this.server.destroy();
  }
}

class Line {
  connections = new Set();
  delayMs = 0;
  /** Nothing passes, and nobody is told. */
  silent = false;
  /** Notifications are swallowed. */
  deaf = false;
  /** New connections are refused. */
  closed = false;
  /** @type {Cut[]} */
  cuts = [];
  cutsMade = 0;
  /** Messages that were held up or swallowed, connections that were refused or reset. */
  touched = 0;

  constructor(target) {
    this.target = target;
    this.listener = createServer({ allowHalfOpen: true }, (client) => {
      if (this.closed) {
        this.touched++;
        return client.resetAndDestroy();
      }
      this.connections.add(new Connection(this, client));
    });
  }

  takeCut(statement) {
    const cut = this.cuts.find((one) => one.statement.test(statement));
    if (!cut) return null;
    cut.times--;
    if (cut.times <= 0) this.cuts.splice(this.cuts.indexOf(cut), 1);
    this.cutsMade++;
    cut.made?.(statement);
    return cut;
  }

  /** Of how many connections. */
  resetAll() {
    const { size } = this.connections;
    for (const connection of this.connections) connection.reset();
    return size;
  }

  /** No more bytes from the clients: their server sees the end, and they can still read. */
  halfClose() {
    for (const { server } of this.connections) server.end();
    return this.connections.size;
  }

  heal() {
    const broken = this.silent;
    this.delayMs = 0;
    this.silent = this.deaf = this.closed = false;
    this.cuts = [];
    // What was swallowed is missing from the streams: they are of no use.
    if (broken) this.resetAll();
  }
}

/** @param {string} url of the server */
export async function openLine(url) {
  const line = new Line(new URL(url));
  await new Promise((resolve) => line.listener.listen(0, '127.0.0.1', resolve));
  const through = new URL(url);
  through.hostname = '127.0.0.1';
  through.port = `${line.listener.address().port}`;
  return Object.assign(line, {
    url: through.href,
    /** From now on another server; who is connected to the old one is cut off. */
    pointTo(other) {
      line.target = new URL(other);
      line.resetAll();
    },
    async stop() {
      line.resetAll();
      await new Promise((resolve) => line.listener.close(resolve));
    },
  });
}
