/**
 * One effect of one job: found done, or done now and recorded with its value. What comes back is what the marker keeps, in
 * the first attempt too. A value that cannot be kept never costs the marker: the effect has happened.
 */
import { describeError } from '../job/errors/failure.js';
import type { Stored } from '../job/options/stored.js';
import { mayPass } from '../postgres/connect/pool.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { findEffect, recordEffect } from './once.js';
import { keepValue, NO_VALUE } from './value.js';

export interface Effect<Value> {
  readonly name: string;
  readonly effect: () => Value | Promise<Value>;
  /** Throws if it may not begin any more. */
  readonly begins: () => void;
  /** What the marker cannot keep of its value. */
  readonly warn: (problem: string) => void;
}

export interface EffectOwner {
  readonly workerId: string;
  readonly id: string;
  readonly generation: number;
}

/** Null: it was done now, and the marker was not written, because the lease was lost. */
export async function runOnce<Value>(
  db: Executor,
  names: Names,
  owner: EffectOwner,
  maxBytes: number,
  { name, effect, begins, warn }: Effect<Value>,
): Promise<{ readonly value: Stored<Value> } | null> {
  const before = await findEffect(db, names, owner.id, name);
  if (before !== null) return { value: JSON.parse(before).value };
  begins();
  const value = await effect();
  const { text, problem } = keepValue(value, name, maxBytes);
  if (problem !== null) warn(problem);
  const record = (kept: string) => recordEffect(db, names, owner, name, kept);
  const stands = await record(text).catch((error) => {
    if (mayPass(error) || text === NO_VALUE) throw error;
    // Refused for its characters, as by a database in LATIN1. The effect has happened all the same.
    warn(`the database refused it: ${describeError(error).message}`);
    return record(NO_VALUE);
  });
  return stands === null ? null : { value: JSON.parse(stands).value };
}
