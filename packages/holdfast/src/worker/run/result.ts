/**
 * The result of a job: what its handler returned, as JSON, kept in the archive and therefore bounded. If it cannot
 * be kept, that is logged, and the job completes without it. `undefined`, `null` and the Result of a query of pg are no result.
 */
import { HoldfastError } from '../../job/errors/errors.js';
import { encodePayload } from '../../job/payload.js';
import type { Logger } from '../../postgres/log/log.js';
import type { ContextDeps } from './context-deps.js';
import type { LeasedJob } from './leased-job.js';

/** A result is an answer, not a document; larger things belong into a table of their own. */
export const MAX_RESULT_BYTES = 8 * 1024;

const ENCODING = { maxBytes: MAX_RESULT_BYTES, what: 'result', consequence: 'it was not kept' };

/** What a worker, known by its logger, has said of its jobs. Names may be made from data, so it is bounded. */
const said = new WeakMap<object, Set<string>>();
const MOST_SAID = 1_000;

/** Once is enough: what is wrong with one job of a type is wrong with all of them. */
export function isNew(log: Logger, ...what: string[]): boolean {
  const known = said.get(log) ?? new Set();
  said.set(log, known);
  const fits = known.size < MOST_SAID && !known.has(what.join('\n'));
  if (fits) known.add(what.join('\n'));
  return fits;
}

/** Null: there is none, or it could not be kept. Never throws. */
export function resultText(value: unknown, held: LeasedJob, deps: ContextDeps): string | null {
  if (value === undefined || value === null || isQueryResult(value)) return null;
  try {
    return encodePayload(value, ENCODING);
  } catch (error) {
    const { id, queue, row } = held;
    const { type } = row;
    const why = reason(error);
    deps.emit({ kind: 'result-refused', queue, id, type, why });
    if (isNew(deps.log, 'result', queue, type))
      deps.log.warn(
        { job: id, type, err: why },
        'the result of a handler could not be kept; its job is completed',
      );
    return null;
  }
}

/**
 * What `tx.query` of pg returns. A handler that ends with `ctx.transaction((tx) => tx.query(…))` has no result in mind.
 * Known by its shape: the application may have a pg of its own.
 */
function isQueryResult(value: object): boolean {
  const { rows, fields } = value as { rows?: unknown; fields?: unknown };
  return value.constructor?.name === 'Result' && Array.isArray(rows) && Array.isArray(fields);
}

function reason(error: unknown): string {
  if (!(error instanceof HoldfastError)) return 'result could not be read; it was not kept';
  if (error.code !== 'PAYLOAD_TOO_LARGE') return error.message;
  return (
    `result is more than ${MAX_RESULT_BYTES} bytes of JSON; it was not kept; ` +
    'store the data elsewhere and return a reference to it'
  );
}
