/** A statement on a queue that may not exist: Postgres speaks of a relation then, and a caller knows queues. */
import { HoldfastError } from '../job/errors.js';
import type { Names } from './names.js';

const UNDEFINED_TABLE = '42P01';

export async function inQueue<Value>(names: Names, work: Promise<Value>): Promise<Value> {
  try {
    return await work;
  } catch (error) {
    if ((error as { code?: unknown }).code !== UNDEFINED_TABLE) throw error;
    throw new HoldfastError(
      'QUEUE_UNKNOWN',
      `There is no queue "${names.queue}" in schema "${names.schema}"; nothing was done. ` +
        'Check the name, or make it with createQueue().',
      { cause: error },
    );
  }
}
