/**
 * One request, through the guard. The time-out covers everything, from the look-up to the last byte of the answer. No more
 * of an answer is read than is kept or needed to use the connection again; after that it is cut off. What comes back is a
 * fact: an answer, or why there is none. It never throws.
 */
import http from 'node:http';
import https from 'node:https';
import { rootCertificates } from 'node:tls';
import { urlToHttpOptions } from 'node:url';
import { AddressRefused, type Guard } from '../guard/guard.js';

/** How much of an answer is kept. */
const KEPT_BYTES = 1_024;
/** How much of it is read, so that its connection can be used again. */
const READ_BYTES = 64 * 1_024;

/** Of one endpoint as many connections are kept as it may have requests at once. */
const MOST_KEPT = 100;
const IDLE_MS = 30_000;
/** So many "wait" (1xx) may come before an answer. */
const MOST_HINTS = 16;

export interface Answer {
  /** Null: there was none. */
  readonly status: number | null;
  readonly headers: http.IncomingHttpHeaders;
  /** The beginning of its body. */
  readonly text: string;
  /** Null: the whole answer came, or as much as is read. */
  readonly error: string | null;
  readonly timedOut: boolean;
  readonly ms: number;
}

export interface Request {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

export interface Poster {
  post(request: Request): Promise<Answer>;
  close(): void;
}

export interface PosterOptions {
  readonly guard: Guard;
  /** Certificates of authorities, beside those of Node. */
  readonly ca?: string | readonly string[] | undefined;
}

const WORDS: Readonly<Record<string, string>> = {
  ENOTFOUND: 'the host has no address',
  EAI_AGAIN: 'the host cannot be looked up now',
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was cut off',
  EPIPE: 'the connection was cut off',
  ETIMEDOUT: 'no connection was made in time',
  HPE_HEADER_OVERFLOW: 'the headers of the answer are too large',
};

/** In words that may be shown to a customer: no addresses. */
function wordsOf(error: unknown): string {
  if (error instanceof AddressRefused) return error.message;
  const { code, errors } = error as { code?: string; errors?: unknown[] };
  if (Array.isArray(errors) && errors.length > 0) return wordsOf(errors[0]);
  if (code === undefined) return 'the request failed';
  return WORDS[code] ?? `the request failed (${code})`;
}

/** Adds to what is known of the answer. */
type Take = (part: Partial<Answer>) => void;

/** The request that is under way, to be stopped from outside. */
interface Call {
  sent: http.ClientRequest | null;
  stopped: boolean;
}

/** The server closed a connection that was kept, in the moment in which it was used again. */
const isStale = (request: http.ClientRequest, error: unknown) =>
  request.reusedSocket && ['ECONNRESET', 'EPIPE'].includes((error as { code?: string }).code ?? '');

const agentsOf = (keep: http.AgentOptions, ca: PosterOptions['ca']) => ({
  'http:': new http.Agent(keep),
  'https:': new https.Agent({
    ...keep,
    // Whatever NODE_TLS_REJECT_UNAUTHORIZED says.
    rejectUnauthorized: true,
    ...(ca !== undefined && { ca: [...rootCertificates, ...[ca].flat()] }),
  }),
});

/** What comes instead of an answer. `ended`: nothing else will come. */
function hearOthers(sent: http.ClientRequest, take: Take, ended: () => void): void {
  // Nobody asked for another protocol. Unheard, it would end the connection without an error, and the request would hang.
  sent.on('upgrade', ({ statusCode, headers }, socket) => {
    socket.destroy();
    take({ status: statusCode ?? null, headers });
    ended();
  });
  let hints = 0;
  sent.on('information', () => {
    if (++hints > MOST_HINTS) sent.destroy(new Error('no answer but hints'));
  });
}

export function newPoster({ guard, ca }: PosterOptions): Poster {
  const keeping = agentsOf({ keepAlive: true, maxFreeSockets: MOST_KEPT, timeout: IDLE_MS }, ca);
  const fresh = agentsOf({ keepAlive: false }, ca);

  /** What Node makes of a URL, for as long as somebody has the URL. */
  const known = new WeakMap<URL, http.ClientRequestArgs>();
  function partsOf(url: URL): http.ClientRequestArgs {
    let parts = known.get(url);
    if (!parts) {
      parts = urlToHttpOptions(url);
      known.set(url, parts);
    }
    return parts;
  }

  function send(request: Request, call: Call, take: Take, agents = keeping) {
    const { url, headers, body } = request;
    const secure = url.protocol === 'https:';
    return new Promise<void>((resolve, reject) => {
      const sent = (secure ? https : http).request({
        ...{ ...partsOf(url), method: 'POST', lookup: guard.lookup },
        agent: agents[secure ? 'https:' : 'http:'],
        headers: { ...headers, 'content-length': Buffer.byteLength(body) },
      });
      call.sent = sent;
      sent.on('error', (error) => {
        if (!isStale(sent, error) || call.stopped) return reject(error);
        // Nothing of an answer was read. A receiver that had taken it knows the id. Other kept connections may be stale
        // too, and one attempt must not become many: so once, and not on one of these.
        send(request, call, take, fresh).then(resolve, reject);
      });
      sent.on('response', (response) => {
        take({ status: response.statusCode ?? null, headers: response.headers });
        read(response, take).then(resolve, reject);
      });
      hearOthers(sent, take, resolve);
      sent.end(body);
    });
  }

  return {
    async post(request) {
      const startedAt = performance.now();
      const call: Call = { sent: null, stopped: false };
      const stop = () => {
        call.stopped = true;
        call.sent?.destroy(new Error('stopped'));
      };
      let timedOut = false;
      const timer = setTimeout(() => {
        timedOut = true;
        stop();
      }, request.timeoutMs);
      request.signal.addEventListener('abort', stop, { once: true });
      let answer: Answer = {
        ...{ status: null, headers: {}, text: '', error: null, timedOut: false, ms: 0 },
      };
      const take: Take = (part) => {
        answer = { ...answer, ...part };
      };
      try {
        guard.checkLiteral(request.url);
        request.signal.throwIfAborted();
        await send(request, call, take);
      } catch (error) {
        const late = `no whole answer within ${request.timeoutMs} ms`;
        take({ error: timedOut ? late : wordsOf(error), timedOut });
      } finally {
        clearTimeout(timer);
        request.signal.removeEventListener('abort', stop);
        // It answered before it had read everything, and may never read the rest.
        if (call.sent?.writableFinished === false) call.sent.destroy();
      }
      return { ...answer, ms: Math.round(performance.now() - startedAt) };
    },
    close() {
      for (const agent of [keeping, fresh].flatMap((two) => Object.values(two))) agent.destroy();
    },
  };
}

/** Reads to the end, or as far as is read. What came before an error is kept too. */
function read(response: http.IncomingMessage, take: Take) {
  return new Promise<void>((resolve, reject) => {
    let kept = Buffer.alloc(0);
    let bytes = 0;
    response.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (kept.length < KEPT_BYTES) {
        kept = Buffer.concat([kept, chunk.subarray(0, KEPT_BYTES - kept.length)]);
        // A character that was cut in two is left out. Postgres' text knows no NUL.
        const text = new TextDecoder().decode(kept, { stream: true });
        take({ text: text.replaceAll('\0', '') });
      }
      if (bytes <= READ_BYTES) return;
      resolve();
      response.destroy();
    });
    response.on('end', resolve);
    response.on('error', reject);
    response.on('close', () => reject(new Error('closed')));
  });
}
