/**
 * One claim of a queue that is read by key, in order or in turns, and what the reader of its keys learns from it. A
 * claim under a limit that leaves nothing has read nothing: its reader reads the same again.
 */
import { claimKeyed, type KeyedClaim, type KeyStretch } from '../../claim/claim-keyed.js';
import { claimTurns } from '../../claim/claim-turns.js';
import type { ClaimTerms } from '../../claim/taking.js';
import { PACE_MS } from '../time.js';
import type { ClaimBatch, ClaimReaderDeps } from './claim-reader.js';
import type { KeyReader } from './key-reader.js';

/** Heads of keys that are due within this time are remembered. */
const SOON_MS = 5_000;

export interface KeysRequest {
  readonly keys: KeyReader;
  readonly stretches: readonly KeyStretch[];
  /** In order, at most so many jobs of a key. */
  readonly run: number;
  readonly ask: boolean;
}

export async function claimKeys(
  { engine, names, time, settings }: ClaimReaderDeps,
  terms: ClaimTerms,
  { keys, stretches, run, ask }: KeysRequest,
): Promise<KeyedClaim & Pick<ClaimBatch, 'run' | 'keysWithMore'>> {
  const sentAt = time.now();
  // What becomes due until the next walk, however rare walks are.
  const asked = { ...terms, stretches, ask, soonMs: Math.max(SOON_MS, 3 * settings.pollMs) };
  const inTurns = async () => {
    const claimed = await claimTurns(engine, names, { ...asked, again: keys.readsAll });
    // Another worker was claiming from these; a claim takes about as long.
    keys.later(claimed.busy, time.now() + PACE_MS);
    if (claimed.missed) keys.later(null, time.now() + PACE_MS);
    return { ...claimed, keysWithMore: new Set(claimed.jobs.filter(({ more }) => more)) };
  };
  try {
    const claimed = keys.turns
      ? await inTurns()
      : { ...(await claimKeyed(engine, names, { ...asked, run })), run };
    if (claimed.allowed > 0) {
      const tookMs = time.now() - sentAt;
      keys.record(claimed, Math.min(terms.limit, claimed.allowed), time.now(), tookMs);
    } else keys.failed();
    // Heads that wait for their time are read again then.
    for (const { inMs, bucket } of claimed.due) keys.later([bucket], time.now() + inMs + 1);
    return claimed;
  } catch (error) {
    keys.failed();
    throw error;
  }
}
