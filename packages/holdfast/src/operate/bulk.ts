/**
 * A verb over many jobs, in batches: find the next ids, act on them, and again. Each batch is a statement
 * of its own and commits by itself, so it can be interrupted between any two, and doing it again goes on
 * with what is left. What the verb did not move, because it had changed meanwhile, is counted.
 */
import { invalid } from '../job/errors/holdfast-error.js';

/** Batches that commit one by one cannot be part of a caller's transaction, and one statement over all would hold its locks. */
export function refuseTx(choice: unknown, where: string, instead: string): void {
  if (typeof choice !== 'object' || choice === null || !('tx' in choice)) return;
  throw invalid(
    `${where} takes no tx: it goes in batches that commit one by one, so that a million jobs are not locked at once; nothing was done. ${instead}`,
  );
}

export interface Found {
  readonly ids: readonly string[];
  /** Where to look further; null: there is nothing further. */
  readonly next: string | null;
}

/** How far a call on many dead letters has come. */
export interface Step {
  /** Sums over all batches so far. */
  readonly found: number;
  /** Those that were retried or discarded. */
  readonly moved: number;
  /** There is nothing further. */
  readonly finished: boolean;
}

export interface Bulk {
  readonly find: (after: string | null) => Promise<Found>;
  /** Returns the ids that it moved. */
  readonly act: (ids: readonly string[]) => Promise<readonly string[]>;
  /** No batch begins after it is aborted. */
  readonly signal?: AbortSignal | undefined;
}

export async function* inBatches({ find, act, signal }: Bulk): AsyncGenerator<Step, void> {
  let [found, moved] = [0, 0];
  let after: string | null = null;
  do {
    if (signal?.aborted) return;
    const page: Found = await find(after);
    after = page.next;
    if (page.ids.length > 0) {
      found += page.ids.length;
      moved += (await act(page.ids)).length;
    }
    yield { found, moved, finished: after === null };
  } while (after !== null);
}
