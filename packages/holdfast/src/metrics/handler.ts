/**
 * `/metrics` to mount: for node:http (and Express, Fastify, …) and for anything that speaks fetch. There is nothing secret in
 * it, but it tells how busy you are: mount it where only your Prometheus comes.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { CONTENT_TYPE } from './exposition.js';
import {
  collectMetrics,
  type Metrics,
  type MetricsOptions,
  type MetricsSource,
} from './metrics.js';

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

async function answer(metrics: Metrics, method: string | undefined): Promise<Answer> {
  if (method !== 'GET' && method !== 'HEAD') {
    const headers = { allow: 'GET, HEAD', 'content-type': 'text/plain; charset=utf-8' };
    return { status: 405, headers, body: 'Use GET.\n' };
  }
  const headers = { 'content-type': CONTENT_TYPE, 'cache-control': 'no-store' };
  return { status: 200, headers, body: method === 'HEAD' ? '' : await metrics.text() };
}

const metricsFrom = (from: MetricsSource | Metrics, options: MetricsOptions): Metrics =>
  'text' in from ? from : collectMetrics(from, options);

/**
 * Serves Prometheus' metrics from `node:http` and frameworks on it.
 * @example createServer(metricsHandler(hf)).listen(9464);
 */
export function metricsHandler(
  from: MetricsSource | Metrics,
  options: MetricsOptions = {},
): (request: IncomingMessage, response: ServerResponse) => Promise<void> {
  const metrics = metricsFrom(from, options);
  return async (request, response) => {
    const { status, headers, body } = await answer(metrics, request.method);
    response.writeHead(status, headers).end(body);
  };
}

/**
 * Serves Prometheus' metrics from frameworks with Requests and Responses.
 * @example
 * const metrics = metricsFetch(hf);
 * const answer = await metrics(new Request('http://localhost/metrics'));
 */
export function metricsFetch(
  from: MetricsSource | Metrics,
  options: MetricsOptions = {},
): (request: Request) => Promise<Response> {
  const metrics = metricsFrom(from, options);
  return async (request) => {
    const { status, headers, body } = await answer(metrics, request.method);
    return new Response(body, { status, headers });
  };
}
