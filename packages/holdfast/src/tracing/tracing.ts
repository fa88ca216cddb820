/**
 * Tracing: a job's trace begins where it was enqueued and goes on in its handler.
 *
 * An enqueue is a `send` span of kind producer; its context travels in the job's headers (`traceparent`,
 * `tracestate`, or whatever the registered propagator writes). An attempt is a `process` span of kind
 * consumer, a child of that context and linked to it; what a handler enqueues continues the same trace. Each try of a step
 * of a workflow is a span of its own below that of its turn.
 * The names are those of OpenTelemetry's messaging conventions. Spans carry no payloads, no keys, no
 * headers and no error messages. A context that cannot be carried costs the trace, not the job.
 */
import { describeError } from '../job/errors/failure.js';
import { encodeHeaders } from '../job/headers.js';
import type { Attributes, Context, Span, Telemetry } from './api.js';

const LIBRARY = 'holdfast';

export interface Sending {
  readonly queue: string;
  /** The type of the jobs, if they have one in common. */
  readonly type: string | null;
  readonly count: number;
  /** `create`: handed over now and written later, with the completion of its parent. */
  readonly operation: 'send' | 'create';
}

export interface Processing {
  readonly queue: string;
  readonly type: string;
  readonly id: string;
  readonly bucket: number;
  readonly attempt: number;
  readonly workerId: string;
  /** The headers as the row has them: JSON text, or null. */
  readonly headers: string | null;
}

/** A try of a step of a workflow, inside an attempt, which is a turn of its run. */
export interface Stepping {
  readonly queue: string;
  readonly type: string;
  readonly id: string;
  readonly step: string;
  readonly kind: 'step' | 'transaction' | 'undo';
  readonly attempt: number;
}

/** How an attempt ended. An outcome is a value; `errorType` is there when it was no success. */
export interface Ended {
  readonly kind: string;
  readonly errorType?: string;
}

/** The headers to write with a job: its own, and the context of the span that sends it. */
export type WithContext = (own: Headers | undefined) => Headers | undefined;

export class Tracing {
  readonly #api: Telemetry;
  readonly #tracer: ReturnType<Telemetry['trace']['getTracer']>;

  constructor(api: Telemetry, version?: string) {
    this.#api = api;
    this.#tracer = api.trace.getTracer(LIBRARY, version);
  }

  /** Runs an enqueue in a span. A single job's id becomes known to the span when it is written. */
  async send<Result extends readonly { readonly id: string }[]>(
    sending: Sending,
    work: (withContext: WithContext) => Promise<Result>,
  ): Promise<Result> {
    const { SpanKind, context, trace } = this.#api;
    const attributes: Attributes = {
      ...operation(sending.operation, sending.queue),
      ...(sending.type !== null && { 'messaging.holdfast.job.type': sending.type }),
      ...(sending.count > 1 && { 'messaging.batch.message_count': sending.count }),
    };
    const name = `${sending.operation} ${sending.queue}`;
    const span = this.#tracer.startSpan(
      name,
      { kind: SpanKind.PRODUCER, attributes },
      context.active(),
    );
    const inside = trace.setSpan(context.active(), span);
    try {
      const carrier = this.#carrier(inside);
      const result = await context.with(inside, () => work((own) => fitting(own, carrier)));
      if (result.length === 1) span.setAttribute('messaging.message.id', result[0]?.id as string);
      return result;
    } catch (error) {
      this.#fail(span, errorType(error));
      throw error;
    } finally {
      span.end();
    }
  }

  /** Runs an attempt in a span that continues the trace of the job's producer. */
  async process<Outcome extends Ended>(
    job: Processing,
    work: () => Outcome | Promise<Outcome>,
  ): Promise<Outcome> {
    const { SpanKind, ROOT_CONTEXT, context, trace } = this.#api;
    const created = this.#extract(job.headers) ?? ROOT_CONTEXT;
    const creator = trace.getSpanContext(created);
    const attributes: Attributes = {
      ...operation('process', job.queue),
      'messaging.message.id': job.id,
      'messaging.client.id': job.workerId,
      'messaging.destination.partition.id': String(job.bucket),
      'messaging.holdfast.job.type': job.type,
      'messaging.holdfast.job.attempt': job.attempt,
    };
    const span = this.#tracer.startSpan(
      `process ${job.queue}`,
      { kind: SpanKind.CONSUMER, attributes, links: creator ? [{ context: creator }] : [] },
      created,
    );
    try {
      const outcome = await context.with(trace.setSpan(created, span), work);
      span.setAttribute('messaging.holdfast.job.outcome', outcome.kind);
      if (outcome.errorType !== undefined) this.#fail(span, outcome.errorType);
      return outcome;
    } finally {
      span.end();
    }
  }

  /**
   * Runs a try of a step in a span below that of its turn. All turns of a run are children of the context in which it was
   * enqueued, and so they are one trace.
   */
  async step<Value>(
    { queue, type, id, step, kind, attempt }: Stepping,
    work: () => Promise<Value>,
  ): Promise<Value> {
    const { context, trace } = this.#api;
    const attributes: Attributes = {
      'messaging.system': LIBRARY,
      'messaging.destination.name': queue,
      'messaging.message.id': id,
      'messaging.holdfast.job.type': type,
      'messaging.holdfast.step.name': step,
      'messaging.holdfast.step.kind': kind,
      'messaging.holdfast.step.attempt': attempt,
    };
    const span = this.#tracer.startSpan(`${kind} ${type}`, { attributes }, context.active());
    try {
      return await context.with(trace.setSpan(context.active(), span), work);
    } catch (error) {
      this.#fail(span, errorType(error));
      throw error;
    } finally {
      span.end();
    }
  }

  #carrier(inside: Context): Headers {
    const carrier: Record<string, string> = {};
    try {
      this.#api.propagation.inject(inside, carrier);
    } catch {
      return {};
    }
    return carriable(carrier);
  }

  #extract(headers: string | null): Context | null {
    if (headers === null) return null;
    try {
      return this.#api.propagation.extract(this.#api.ROOT_CONTEXT, JSON.parse(headers));
    } catch {
      return null;
    }
  }

  #fail(span: Span, type: string): void {
    span.setAttribute('error.type', type);
    span.setStatus({ code: this.#api.SpanStatusCode.ERROR });
  }
}

function operation(name: 'send' | 'create' | 'process', queue: string): Attributes {
  return {
    'messaging.system': LIBRARY,
    'messaging.operation.name': name,
    'messaging.operation.type': name,
    'messaging.destination.name': queue,
  };
}

export type Headers = Readonly<Record<string, string>>;

function accepted(headers: unknown): boolean {
  try {
    encodeHeaders(headers);
    return true;
  } catch {
    return false;
  }
}

/** What of a propagator's carrier can travel in headers at all; asked once for all jobs of a call. */
export function carriable(carrier: Headers): Headers {
  if (accepted(carrier)) return carrier;
  const fit = Object.entries(carrier).filter(([name, value]) => accepted({ [name]: value }));
  return Object.fromEntries(fit);
}

/**
 * What would break the limits of headers is left out: a long baggage costs the baggage, too many headers cost the trace,
 * never the job. A context of the producer's own stays, and what is wrong stays wrong, for the enqueue to refuse.
 */
export function fitting(own: Headers | undefined, carrier: Headers): Headers | undefined {
  if (Object.keys(carrier).length === 0) return own;
  if (own === undefined) return carrier;
  if (!accepted(own) || Object.keys(carrier).some((name) => name in own)) return own;
  const both = { ...own, ...carrier };
  return accepted(both) ? both : own;
}

const WORD = /^[A-Za-z0-9_.:-]{1,64}$/;

/** In one word: its code or its class. Never its message, which may quote whatever the handler was working on. */
export function errorType(error: unknown): string {
  const { code, name } = describeError(error);
  if (code !== null && WORD.test(code)) return code;
  return WORD.test(name) ? name : '_OTHER';
}
