/** Claiming where keys take turns, without the worker: every key, from the start. */

import { rest } from '../../packages/holdfast/src/claim/key/stretches.js';
import {
  claimTurns,
  type TurnsClaim,
  type TurnsRequest,
} from '../../packages/holdfast/src/claim/turns/claim.js';
import type { Names } from '../../packages/holdfast/src/postgres/names.js';
import type { Executor } from '../../packages/holdfast/src/postgres/queryable.js';
import { terms } from './claiming.js';
import { INBOX } from './database.js';
import { ALL_KEYS } from './ordered.js';

export type TurnsOptions = Partial<TurnsRequest> & { readonly names?: Names };

export function claimInTurns(
  db: Executor,
  workerId: string,
  { names = INBOX, ...options }: TurnsOptions = {},
): Promise<TurnsClaim> {
  const request = {
    ...terms(workerId),
    ...{ stretches: ALL_KEYS, again: false, ask: false, soonMs: 3_000, ...options },
  };
  return claimTurns(db, names, request);
}

/** Claim after claim, each from where the one before it stopped, until a walk has come round. */
export async function walkInTurns(
  db: Executor,
  workerId: string,
  options: TurnsOptions,
): Promise<TurnsClaim[]> {
  const claims: TurnsClaim[] = [];
  let stretches = options.stretches ?? ALL_KEYS;
  while (stretches.length > 0) {
    const claim = await claimInTurns(db, workerId, { ...options, stretches });
    claims.push(claim);
    stretches = claim.stop ? rest(stretches, claim.stop) : [];
  }
  return claims;
}
