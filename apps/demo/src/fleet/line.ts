/**
 * A worker's line to the database, through this process, so that it can be cut. A cut line says
 * nothing: no byte and no end of a connection passes in either direction, as when a cable is
 * pulled. When it is mended, what was held back passes, and what was closed meanwhile closes.
 */
import { once } from 'node:events';
import net from 'node:net';

export interface Line {
  /** The database, as the worker is to reach it. */
  readonly url: string;
  cut(): void;
  mend(): void;
  close(): void;
}

interface Pair {
  readonly near: net.Socket;
  readonly far: net.Socket;
}

const DEFAULT_PORT = 5432;

export async function openLine(databaseUrl: string): Promise<Line> {
  const target = new URL(databaseUrl);
  const pairs = new Set<Pair>();
  let isCut = false;
  const server = net.createServer((near) => {
    const far = net.connect(Number(target.port || DEFAULT_PORT), target.hostname);
    const pair = { near, far };
    pairs.add(pair);
    for (const socket of [near, far]) {
      socket.setNoDelay(true);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        if (!isCut) end(pair);
      });
    }
    if (!isCut) join(pair);
  });
  function end(pair: Pair): void {
    pairs.delete(pair);
    pair.near.destroy();
    pair.far.destroy();
  }
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const own = new URL(databaseUrl);
  own.hostname = '127.0.0.1';
  own.port = String((server.address() as net.AddressInfo).port);
  return {
    url: own.toString(),
    cut() {
      isCut = true;
      for (const pair of pairs) part(pair);
    },
    mend() {
      isCut = false;
      for (const pair of [...pairs]) {
        if (pair.near.destroyed || pair.far.destroyed) end(pair);
        else join(pair);
      }
    },
    close() {
      server.close();
      for (const pair of [...pairs]) end(pair);
    },
  };
}

function join({ near, far }: Pair): void {
  near.pipe(far);
  far.pipe(near);
}

/** A socket that is not read does not notice its end either. */
function part({ near, far }: Pair): void {
  near.unpipe(far);
  far.unpipe(near);
  near.pause();
  far.pause();
}
