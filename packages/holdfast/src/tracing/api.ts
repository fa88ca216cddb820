/**
 * The part of `@opentelemetry/api` that is used here, by its shape. The package is handed in by those who
 * trace (`holdfast({ telemetry: api })`) and is neither imported nor needed by those who do not.
 */
export interface SpanContext {
  readonly traceId: string;
  readonly spanId: string;
  readonly traceFlags: number;
}

export type Attributes = Record<string, string | number | boolean>;

export interface Span {
  spanContext(): SpanContext;
  setAttribute(name: string, value: string | number | boolean): unknown;
  setStatus(status: { code: number }): unknown;
  end(): void;
}

export interface SpanOptions {
  readonly kind?: number;
  readonly attributes: Attributes;
  readonly links?: { context: SpanContext }[];
}

/** Opaque: made by the API, and only handed back to it. */
export type Context = object;

export interface Telemetry {
  readonly trace: {
    getTracer(
      name: string,
      version?: string,
    ): { startSpan(name: string, options?: SpanOptions, context?: Context): Span };
    setSpan(context: Context, span: Span): Context;
    getSpanContext(context: Context): SpanContext | undefined;
  };
  readonly context: {
    active(): Context;
    with<Value>(context: Context, work: () => Value): Value;
  };
  readonly propagation: {
    inject(context: Context, carrier: Record<string, string>): void;
    extract(context: Context, carrier: Readonly<Record<string, string>>): Context;
  };
  readonly SpanKind: { readonly PRODUCER: number; readonly CONSUMER: number };
  readonly SpanStatusCode: { readonly ERROR: number };
  readonly ROOT_CONTEXT: Context;
}
