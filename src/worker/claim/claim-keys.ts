/**
 * One claim of a queue that is read by key, in order or in turns, and what the reader of its keys learns from it. A
 * claim under a limit that leaves nothing has read nothing: its reader reads the same again.
 */
import {
  claimKeyed,
  type KeyedClaim,
  type KeyedClaimRequest,
  type KeyStretch,
} from '../../claim/claim-keyed.js';
import { claimTurns } from '../../claim/claim-turns.js';
import type { ClaimedJob, ClaimTerms } from '../../claim/taking.js';
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import type { Settings } from '../options.js';
import type { Time } from '../time.js';
import type { KeyReader } from './key-reader.js';

/** Heads of keys that are due within this time are remembered. */
const SOON_MS = 5_000;
/** A bucket that another worker was claiming from is read again after this time: a claim takes about as long. */
const BUSY_MS = 5;

export interface KeysDeps {
  readonly names: Names;
  readonly engine: Executor;
  readonly settings: Settings;
  readonly time: Time;
}

export interface KeysRequest {
  readonly keys: KeyReader;
  readonly stretches: readonly KeyStretch[];
  /** Keys take turns. */
  readonly turns: boolean;
  /** In order, at most so many jobs of a key. */
  readonly run: number;
  readonly ask: boolean;
}

/** `run` and `keysWithMore` as a `ClaimBatch` has them. */
export interface KeysClaim extends KeyedClaim {
  readonly run: number | null;
  readonly keysWithMore?: ReadonlySet<ClaimedJob>;
  readonly alone: false;
}

export async function claimKeys(
  deps: KeysDeps,
  terms: ClaimTerms,
  { keys, stretches, turns, run, ask }: KeysRequest,
): Promise<KeysClaim> {
  const { time, settings } = deps;
  const sentAt = time.now();
  // What becomes due until the next walk, however rare walks are.
  const asked = { ...terms, stretches, ask, soonMs: Math.max(SOON_MS, 3 * settings.pollMs) };
  try {
    const claimed = turns
      ? await inTurns(deps, keys, asked)
      : { ...(await claimKeyed(deps.engine, deps.names, { ...asked, run })), run };
    if (claimed.allowed > 0) {
      const tookMs = time.now() - sentAt;
      keys.record(claimed, Math.min(terms.limit, claimed.allowed), time.now(), tookMs);
    } else keys.failed();
    // Heads that wait for their time are read again then.
    for (const { inMs, bucket } of claimed.due) keys.later([bucket], time.now() + inMs + 1);
    return { ...claimed, alone: false };
  } catch (error) {
    keys.failed();
    throw error;
  }
}

async function inTurns(
  { engine, names, time }: KeysDeps,
  keys: KeyReader,
  asked: Omit<KeyedClaimRequest, 'run'>,
) {
  const claimed = await claimTurns(engine, names, { ...asked, again: keys.readsAll });
  if (claimed.busy.length > 0) keys.later(claimed.busy, time.now() + BUSY_MS);
  if (claimed.missed) keys.later(null, time.now() + BUSY_MS);
  return {
    ...claimed,
    run: null,
    keysWithMore: new Set(claimed.jobs.filter(({ more }) => more)),
  };
}
