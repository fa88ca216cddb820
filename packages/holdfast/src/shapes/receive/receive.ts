/**
 * Webhooks in. A request is verified by its raw bytes, becomes a job, and is answered with 2xx once that job is committed:
 * what was answered is not lost, and what was not is sent again. The provider's id of the event is the idempotency key of the
 * job, so a repeated delivery finds the job that is there. The first body of an id counts.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Holdfast } from '../../api/holdfast.js';
import { partsOf } from '../../holdfast.js';
import { invalid } from '../../job/errors/holdfast-error.js';
import { checkDefinition, type JobDefinition } from '../../job/job.js';
import { cutOff } from './answers.js';
import { readFetch, readNode } from './bodies.js';
import type { Delivery } from './delivery.js';
import { intake, type ReceiverStats } from './intake.js';
import { type Received, type ReceiveOptions, settingsOf } from './options.js';

/** What `receive()` makes: the same handler in two forms, and its counts. */
export interface Receiver {
  /**
   * For frameworks with Requests and Responses: Hono, Next, Remix, Bun.
   * @example
   * const hook = receive(hf, job<Received>('github_event'), { verify: github('secret') });
   * const response = await hook.fetch(new Request('https://shop.example/hooks', { method: 'POST' }));
   */
  fetch(request: Request): Promise<Response>;
  /**
   * For `node:http` and frameworks on it: Express, Fastify, Nest.
   * @example
   * const hook = receive(hf, job<Received>('github_event'), { verify: github('secret') });
   * createServer(hook.node).listen(8080);
   */
  node(request: IncomingMessage, response: ServerResponse): Promise<void>;
  /** Its counts since the program started. */
  readonly stats: ReceiverStats;
}

/**
 * Takes webhooks: verifies each, enqueues it once by its id, and answers 2xx after the commit.
 * @example
 * const paid = job<Received<{ type: string }>>('stripe_event');
 * const hook = receive(hf, paid, { verify: stripe(process.env.STRIPE_SECRET ?? '') });
 * createServer(hook.node).listen(8080);
 */
export function receive<Body>(
  hf: Holdfast,
  job: JobDefinition<Received<Body>, unknown>,
  options: ReceiveOptions<Body>,
): Receiver {
  const parts = partsOf(hf);
  if (!parts) throw invalid('receive() needs what holdfast() returned. Nothing was made.');
  checkDefinition(job, 'The second argument of receive()', 'Nothing was made.');
  const settings = settingsOf(options as ReceiveOptions<never>);
  const { answer, stats } = intake({ hf, parts, job, options, settings });
  return {
    stats,
    async fetch(request) {
      const { method, url, headers } = request;
      const made = await answer({
        ...{ method, url, headers },
        read: (bounds) => readFetch(request, bounds),
      });
      const { status, headers: of, body } = made ?? cutOff;
      return new Response(body === '' ? null : body, { status, headers: of });
    },
    async node(request, response) {
      const made = await answer({
        ...{ method: request.method, url: request.url ?? '', headers: headersOf(request) },
        read: (bounds) => readNode(request, bounds),
      });
      if (!made || response.headersSent) return;
      // The rest of a body that nobody reads must not be taken for the next request.
      const unread = !request.complete && request.httpVersionMajor < 2;
      response
        .writeHead(made.status, { ...made.headers, ...(unread && { connection: 'close' }) })
        .end(made.body);
    },
  };
}

function headersOf({ headers }: IncomingMessage): Delivery['headers'] {
  return {
    get(name) {
      const value = headers[name.toLowerCase()];
      return Array.isArray(value) ? value.join(', ') : (value ?? null);
    },
  };
}
