/** A statement on a queue that may not exist: Postgres speaks of a relation then, and a caller knows queues. */
import { HoldfastError } from '../job/errors/errors.js';
import type { Names } from './names.js';

const UNDEFINED_TABLE = '42P01';
const UNDEFINED_SCHEMA = '3F000';
const UNDEFINED_FUNCTION = '42883';

export async function inQueue<Value>(names: Names, work: Promise<Value>): Promise<Value> {
  try {
    return await work;
  } catch (error) {
    if (!isMissing(names, error)) throw error;
    throw unknownQueue(names, error);
  }
}

function isMissing({ queue }: Names, error: unknown): boolean {
  const { code, message } = error as { code?: unknown; message?: unknown };
  if (code === UNDEFINED_TABLE || code === UNDEFINED_SCHEMA) return true;
  return code === UNDEFINED_FUNCTION && String(message).includes(`.${queue}_`);
}

/** The first queue is there as soon as there are tables. */
function unknownQueue({ schema, queue }: Names, cause: unknown): HoldfastError {
  if (queue === 'inbox') {
    return new HoldfastError(
      'SCHEMA_MISSING',
      `The schema "${schema}" has no Holdfast tables, so nothing was done. ` +
        'Run `holdfast migrate`, or call hf.migrate() first.',
      { cause },
    );
  }
  return new HoldfastError(
    'QUEUE_UNKNOWN',
    `There is no queue "${queue}" in schema "${schema}"; nothing was done. ` +
      'Check the name, or make it with createQueue().',
    { cause },
  );
}
