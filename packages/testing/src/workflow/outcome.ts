/** How a run of a test ended. */
import type { RunHistory } from 'holdfast';
import type { Drive } from './drive.js';

export async function outcomeOf({ deps, id, trial }: Drive) {
  const row = await deps.hf.job(id, { queue: trial.names.queue });
  const failed = row?.status === 'dead_letter' || row?.status === 'cancelled';
  const outcome = failed ? (row.status as 'dead_letter' | 'cancelled') : 'completed';
  return {
    outcome,
    result: row?.result ?? null,
    error: failed ? (row.lastError ?? '') : null,
  } as const;
}

/** In the order in which they were undone. */
export const undoneIn = ({ steps }: RunHistory): string[] =>
  steps.flatMap(({ name, kind, place, error }) =>
    kind === 'u' && place !== null && error === null ? [name.slice(1)] : [],
  );
