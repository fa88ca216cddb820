/**
 * Reads the raw bytes of a request: at most so many, and within its time. A body parser that came first has taken them away,
 * unless it has left them as a Buffer.
 */
import type { IncomingMessage } from 'node:http';
import { Refused } from './delivery.js';

export interface Bounds {
  readonly maxBytes: number;
  /** By `performance.now()`. */
  readonly deadline: number;
}

/** The sender went away: nobody is there to be answered. */
export class Gone extends Error {}

/** A parser has read the body before. It is a mistake of the program, so it is also logged. */
export class Consumed extends Refused {
  constructor() {
    super(
      'the raw body is gone: something before this handler, such as express.json(), has read it. ' +
        'Mount this route before the parser, or give it express.raw({ type: "*/*" })',
      500,
    );
  }
}

const tooLarge = ({ maxBytes }: Bounds) => new Refused(`the body is over ${maxBytes} bytes`, 413);
const tooSlow = () => new Refused('the body did not arrive in time', 408);

function checkLength(length: string | null | undefined, bounds: Bounds): void {
  if (length && Number(length) > bounds.maxBytes) throw tooLarge(bounds);
}

/** What came before may have kept the bytes: express.raw() as `body`, others as `rawBody`. */
function keptBy(request: IncomingMessage): Buffer | null {
  const { rawBody, body } = request as { rawBody?: unknown; body?: unknown };
  const kept = [rawBody, body].find((one) => one instanceof Uint8Array) as Uint8Array | undefined;
  return kept ? Buffer.from(kept.buffer, kept.byteOffset, kept.byteLength) : null;
}

export async function readNode(request: IncomingMessage, bounds: Bounds): Promise<Buffer> {
  const kept = keptBy(request);
  if (kept && kept.length > bounds.maxBytes) throw tooLarge(bounds);
  if (kept) return kept;
  if (request.readableDidRead) throw new Consumed();
  checkLength(request.headers['content-length'], bounds);
  const chunks: Buffer[] = [];
  let size = 0;
  return new Promise((resolve, reject) => {
    const end = (error: Error | null) => {
      clearTimeout(timer);
      // The listener for errors stays: one that nobody hears would end the process.
      request.off('data', take).off('end', done).off('close', gone).pause();
      if (error) reject(error);
      else resolve(Buffer.concat(chunks, size));
    };
    const take = (chunk: Buffer) => {
      size += chunk.length;
      if (size > bounds.maxBytes) end(tooLarge(bounds));
      else chunks.push(chunk);
    };
    const done = () => end(null);
    const gone = () => end(new Gone());
    const timer = setTimeout(() => end(tooSlow()), bounds.deadline - performance.now());
    request.on('data', take).on('end', done).on('error', gone).on('close', gone);
  });
}

export async function readFetch(request: Request, bounds: Bounds): Promise<Buffer> {
  if (request.bodyUsed) throw new Consumed();
  checkLength(request.headers.get('content-length'), bounds);
  if (!request.body) return Buffer.alloc(0);
  const reader = request.body.getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(tooSlow()), bounds.deadline - performance.now());
  });
  try {
    for (;;) {
      const { done, value } = await Promise.race([reader.read(), late]);
      if (done) return Buffer.concat(chunks, size);
      size += value.length;
      if (size > bounds.maxBytes) throw tooLarge(bounds);
      chunks.push(value);
    }
  } catch (error) {
    reader.cancel().catch(() => undefined);
    throw error instanceof Refused ? error : new Gone();
  } finally {
    clearTimeout(timer);
  }
}
