// A relay on the loopback that counts what passes between clients and Postgres: bytes both ways,
// queries (simple ones and executions of prepared ones) and round trips (each time the server says
// it is ready).
import { connect, createServer } from 'node:net';

/** Calls `seen(type)` for each message of a stream; a client's first message has no type. */
function messages(seen, untyped) {
  let header = Buffer.alloc(0);
  let skip = 0;
  let first = untyped;
  return (chunk) => {
    let at = 0;
    while (at < chunk.length) {
      if (skip > 0) {
        const step = Math.min(skip, chunk.length - at);
        skip -= step;
        at += step;
        continue;
      }
      const size = first ? 4 : 5;
      const step = Math.min(size - header.length, chunk.length - at);
      header = Buffer.concat([header, chunk.subarray(at, at + step)]);
      at += step;
      if (header.length < size) return;
      if (!first) seen(header[0]);
      skip = header.readInt32BE(size - 4) - 4;
      header = Buffer.alloc(0);
      first = false;
    }
  };
}

const [QUERY, EXECUTE, READY] = [...'QEZ'].map((letter) => letter.charCodeAt(0));

export async function startProxy(url) {
  const target = new URL(url);
  const counts = { toServer: 0, toClient: 0, queries: 0, roundTrips: 0 };
  const sockets = new Set();
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname);
    const fromClient = messages((type) => {
      if (type === QUERY || type === EXECUTE) counts.queries += 1;
    }, true);
    const fromServer = messages((type) => {
      if (type === READY) counts.roundTrips += 1;
    }, false);
    for (const socket of [client, upstream]) {
      socket.setNoDelay(true);
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    client.on('data', (chunk) => {
      counts.toServer += chunk.length;
      fromClient(chunk);
      upstream.write(chunk);
    });
    upstream.on('data', (chunk) => {
      counts.toClient += chunk.length;
      fromServer(chunk);
      client.write(chunk);
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const through = new URL(url);
  through.hostname = '127.0.0.1';
  through.port = `${server.address().port}`;
  return {
    url: through.href,
    read: () => ({ ...counts }),
    async stop() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
