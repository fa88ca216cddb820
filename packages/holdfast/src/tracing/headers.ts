/**
 * Which headers a traced job gets: its own, and the trace's where they fit. A context that the producer
 * set itself is left as it is, and what would break the limits of headers is left out: a long baggage
 * costs the baggage, and a job with as many headers as are allowed costs the trace, never the job.
 */
import { encodeHeaders } from '../job/headers.js';

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

/** `own` is whatever the producer passed. If that is wrong it stays wrong, for the enqueue to refuse. */
export function fitting(own: Headers | undefined, carrier: Headers): Headers | undefined {
  if (Object.keys(carrier).length === 0) return own;
  if (own === undefined) return carrier;
  if (!accepted(own) || Object.keys(carrier).some((name) => name in own)) return own;
  const both = { ...own, ...carrier };
  return accepted(both) ? both : own;
}
