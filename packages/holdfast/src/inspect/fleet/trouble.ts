/**
 * What live workers say of themselves with their heartbeats that nobody sees from outside: handlers that run on although
 * their jobs have left, and jobs that have ended and that the database does not let be settled.
 */
import { isSilent, type WorkerRow } from './workers.js';

export interface LeakedHandlers {
  readonly worker: string;
  readonly queue: string;
  readonly type: string;
  readonly handlers: number;
}

export interface KeptSettles {
  readonly worker: string;
  readonly queue: string;
  readonly jobs: number;
  /** What the database said. */
  readonly why: string;
}

/** Empty of one that is gone or silent. */
export function leakedIn(worker: WorkerRow): LeakedHandlers[] {
  const { id } = worker;
  return entriesOf(said(worker).leaked).flatMap(([queue, types]) =>
    entriesOf(types).flatMap(([type, handlers]) =>
      typeof handlers === 'number' && handlers > 0 ? [{ worker: id, queue, type, handlers }] : [],
    ),
  );
}

export function keptIn(worker: WorkerRow): KeptSettles[] {
  const { id } = worker;
  return entriesOf(said(worker).kept).flatMap(([queue, one]) => {
    const { jobs, why } = (one ?? {}) as { jobs?: unknown; why?: unknown };
    return typeof jobs === 'number' && jobs > 0
      ? [{ worker: id, queue, jobs, why: String(why) }]
      : [];
  });
}

function said(worker: WorkerRow): { leaked?: unknown; kept?: unknown } {
  if (worker.status === 'dead' || isSilent(worker)) return {};
  const { load } = (worker.metadata ?? {}) as { load?: { leaked?: unknown; kept?: unknown } };
  return load ?? {};
}

const entriesOf = (value: unknown): [string, unknown][] =>
  typeof value === 'object' && value !== null ? Object.entries(value) : [];
