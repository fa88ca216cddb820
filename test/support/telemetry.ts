/** OpenTelemetry for one test file: the real SDK, with its spans kept in memory. */
import * as api from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { afterAll, beforeAll, beforeEach, expect } from 'vitest';

export interface Spans {
  /** All that have ended since the test began. */
  all(): ReadableSpan[];
  /** The one of this name. */
  only(name: string): ReadableSpan;
}

export function telemetryInMemory(): Spans {
  const exporter = new InMemorySpanExporter();
  beforeAll(() => {
    const spanProcessors = [new SimpleSpanProcessor(exporter)];
    api.trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors }));
    api.context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    api.propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  });
  afterAll(() => {
    api.trace.disable();
    api.context.disable();
    api.propagation.disable();
  });
  beforeEach(() => exporter.reset());
  return {
    all: () => exporter.getFinishedSpans(),
    only(name) {
      const named = exporter.getFinishedSpans().filter((span) => span.name === name);
      expect(named).toHaveLength(1);
      return named[0] as ReadableSpan;
    },
  };
}
