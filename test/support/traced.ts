/**
 * The hooks of tracing, put around a Holdfast from outside: an enqueue that sends in a span, a handler
 * that processes in one, and children that continue the trace.
 */
import * as api from '@opentelemetry/api';
import type { HandlerContext, Holdfast, JobDefinition } from '../../src/index.js';
import { errorType } from '../../src/tracing/error-type.js';
import { Tracing } from '../../src/tracing/tracing.js';

const tracing = new Tracing(api);

export interface TracedOptions {
  readonly key?: string;
  readonly idempotencyKey?: string;
  readonly headers?: Record<string, string>;
}

export async function tracedEnqueue<Input>(
  hf: Holdfast,
  job: JobDefinition<Input, unknown>,
  payload: Input,
  { headers, ...options }: TracedOptions = {},
): Promise<{ id: string }> {
  const { queue, type } = job;
  const [enqueued] = await tracing.send(
    { queue, type, count: 1, operation: 'send' },
    (withContext) => {
      const all = withContext(headers);
      return hf.enqueueMany([job.of(payload, { ...options, ...(all && { headers: all }) })]);
    },
  );
  return enqueued as { id: string };
}

export type Child = <Input>(
  job: JobDefinition<Input, unknown>,
  payload: Input,
) => Promise<{ id: string }>;

export function tracedHandler<Payload>(
  handler: (context: HandlerContext<Payload>, child: Child) => unknown,
): (context: HandlerContext<Payload>) => Promise<void> {
  return async (context) => {
    let thrown: unknown;
    const { queue, type, id, attempt } = context;
    const headers = JSON.stringify(context.headers);
    const child: Child = async (job, payload) => {
      const [enqueued] = await tracing.send(
        { queue: job.queue, type: job.type, count: 1, operation: 'create' },
        async (withContext) => {
          const all = withContext(undefined);
          return [await context.enqueue(job, payload, { ...(all && { headers: all }) })];
        },
      );
      return enqueued as { id: string };
    };
    const facts = { queue, type, id, attempt, headers, bucket: 0, workerId: 'worker-1' };
    const { kind } = await tracing.process(facts, async () => {
      try {
        await handler(context, child);
        return { kind: 'completed' };
      } catch (error) {
        thrown = error;
        return { kind: 'failed', errorType: errorType(error) };
      }
    });
    if (kind === 'failed') throw thrown;
  };
}
