/** Ids of jobs as a caller gives them: checked, because an array literal would take "a,b" for two. */
import { invalid, shown } from './errors/holdfast-error.js';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export const isId = (value: unknown): value is string =>
  typeof value === 'string' && UUID.test(value);

export function checkId(id: unknown, of = 'a job', from = 'enqueue()'): string {
  if (isId(id)) return id;
  throw invalid(
    `The id is ${shown(id)}, and not the UUID of ${of}; nothing was done. ` +
      `Pass the id that ${from} returned.`,
  );
}

export function checkIds(ids: unknown): readonly string[] {
  if (!Array.isArray(ids)) {
    throw invalid(
      `The ids are ${shown(ids)}, and not an array; nothing was done. For one job write [id].`,
    );
  }
  const wrong = ids.findIndex((id) => !isId(id));
  if (wrong < 0) return ids;
  throw invalid(
    `ids[${wrong}] is ${shown(ids[wrong])}, and not the UUID of a job; nothing was done. ` +
      'Pass the ids that enqueue() returned.',
  );
}
