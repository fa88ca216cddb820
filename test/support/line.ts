/**
 * A line to the database that a test can cut and mend: a port of its own that passes everything on. To
 * those who use it, a cut line is a database that is away; the test itself talks past it.
 */
import { once } from 'node:events';
import net from 'node:net';
import { onTestFinished } from 'vitest';

export class Line {
  /** The same database through this line. */
  readonly url: string;
  readonly #port: number;
  readonly #to: URL;
  readonly #sockets = new Set<net.Socket>();
  /** How many queries have gone through it. */
  queries = 0;
  #server: net.Server | null = null;

  private constructor(to: string, port: number) {
    this.#to = new URL(to);
    this.#port = port;
    const own = new URL(to);
    own.hostname = '127.0.0.1';
    own.port = String(port);
    this.url = own.toString();
    onTestFinished(() => this.cut());
  }

  /** A line that is still cut. */
  static async to(url: string): Promise<Line> {
    const server = net.createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as net.AddressInfo;
    server.close();
    await once(server, 'close');
    return new Line(url, port);
  }

  async mend(): Promise<void> {
    this.#server = net.createServer((near) => {
      const far = net.connect(Number(this.#to.port), this.#to.hostname);
      near.on(
        'data',
        queriesIn(() => this.queries++),
      );
      this.#pass(near, far);
      this.#pass(far, near);
    });
    this.#server.listen(this.#port, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  get connections(): number {
    return this.#sockets.size / 2;
  }

  /** Breaks what is connected, and refuses what tries to connect. */
  cut(): void {
    this.#server?.close();
    this.#server = null;
    for (const socket of this.#sockets) socket.destroy();
    this.#sockets.clear();
  }

  #pass(from: net.Socket, to: net.Socket): void {
    this.#sockets.add(from);
    from.on('close', () => {
      this.#sockets.delete(from);
      to.destroy();
    });
    from.on('error', () => to.destroy());
    from.pipe(to);
  }
}

/** Calls `found` for every query of a client's stream: a simple one, or an execution of a prepared one. */
function queriesIn(found: () => void): (data: Buffer) => void {
  // The first message has no type; every other one has one byte before its length.
  let [rest, typed] = [Buffer.alloc(0), 0];
  return (data) => {
    rest = Buffer.concat([rest, data]);
    while (rest.length >= typed + 4) {
      const length = typed + rest.readInt32BE(typed);
      if (rest.length < length) return;
      if (typed === 1 && 'QE'.includes(String.fromCharCode(rest[0] as number))) found();
      rest = rest.subarray(length);
      typed = 1;
    }
  };
}
