/**
 * Trying a step: its time limit, the waits between tries, and what is recorded in the end. A short wait is held in the
 * process; for a longer one the run sleeps. A value that JSON cannot hold is recorded as a failure: the effect has happened,
 * and is not repeated for it.
 */
import { Cancel, DeadLetter, HoldfastError, RetryLater, Snooze } from '../../job/errors/errors.js';
import { describeError, isA, summaryOf } from '../../job/errors/failure.js';
import { encodePayload } from '../../job/payload.js';
import { kept } from '../errors.js';
import type { StepAbout } from '../flow.js';
import type { Kind } from '../marker.js';
import type { Ask, Tries } from './ask.js';
import { ConnectionLost } from './ports.js';
import type { Working } from './working.js';

/** Up to this the handler is kept. */
const SHORT_MS = 250;

/** So many lost connections in a row spend no try. After that the step may be what ends them. */
const MAX_LOST = 10;
const LOST_MS = 500;

/** `commits`: what it does in a transaction is done, and will be committed now. Throws if it must not be any more. */
type Once = (about: StepAbout, commits: () => void) => Promise<string | null>;

export interface Trying {
  readonly name: string;
  readonly kind: Kind;
  readonly nth: number;
  readonly tries: Tries;
  /** Does it once and returns its value as JSON. `record`: it writes the marker by itself. */
  readonly once: Once;
  readonly records: boolean;
  readonly intent: boolean;
}

/** `recorded`; or `later`: it is to be tried again after so long, and this is what is written meanwhile. */
export type Tried =
  | { readonly how: 'recorded' }
  /** The run is to be undone, so it was not tried. */
  | { readonly how: 'dropped' }
  | { readonly how: 'later'; readonly attempt: number; readonly ms: number; readonly error: string }
  | { readonly how: 'rejected'; readonly error: unknown };

function sayFailed(
  { of: { log } }: Working,
  facts: { undo?: string; step?: string; attempt: number; retryInMs?: number; err: string },
  how: 'for good' | 'unspent' | 'again',
): void {
  if (how === 'unspent')
    log.warn(
      { ...facts },
      'a step lost its connection to the database, and is tried again unspent',
    );
  else if (how === 'again' && facts.undo !== undefined) log.warn({ ...facts }, 'an undo failed');
  else if (how === 'again') log.warn({ ...facts }, 'a step failed');
  else if (facts.undo !== undefined) log.warn({ ...facts }, 'an undo failed for good');
  else log.warn({ ...facts }, 'a step failed for good');
}

export async function tryUntil(turn: Working, what: Trying): Promise<Tried> {
  const { name, kind, nth, tries } = what;
  const open = turn.journal.open.get(name);
  if (what.intent && !open) {
    const none = { ms: null, attempt: null, value: null, error: null };
    await turn.record({ name, kind, nth, ...none }, true);
  }
  let lost = lostBefore(open?.error);
  const about = kind === 'u' ? { undo: name.slice(1) } : { step: name };
  for (let attempt = (open?.attempt ?? 0) + 1; ; attempt++) {
    // Cancelled meanwhile: this effect does not begin.
    if (kind !== 'u' && turn.journal.undoReason !== null) return { how: 'dropped' };
    const from = turn.ports.now();
    const marker = (value: string | null, error: string | null) => ({
      ...{ name, kind, nth, value, error },
      ms: Math.round(turn.ports.now() - from),
      attempt: attempt > 1 ? attempt : null,
    });
    try {
      const value = await watched(turn, what, attempt);
      if (!what.records) await record(turn, marker, value);
      return { how: 'recorded' };
    } catch (failure) {
      if (turn.isOver || turn.of.signal.aborted || isLost(failure)) throw failure;
      const error = isA(failure, ConnectionLost) ? failure.cause : failure;
      lost = isA(failure, ConnectionLost) ? lost + 1 : 0;
      const isOutage = lost > 0 && lost <= MAX_LOST;
      if (isA(error, Cancel) && kind !== 'u') return { how: 'rejected', error };
      const spent = !isA(error, Snooze) && !isOutage;
      const final =
        isA(error, DeadLetter) ||
        isA(error, Cancel) ||
        isRefused(error) ||
        (spent && attempt >= tries.maxAttempts);
      const err = summaryOf(describeError(error).message);
      if (final) {
        sayFailed(turn, { ...about, attempt, err }, 'for good');
        await turn.record(marker(null, kept(error)));
        return { how: 'recorded' };
      }
      const ms = isOutage
        ? Math.max(LOST_MS, tries.delayMs(lost, error))
        : delayOf(tries, attempt, error);
      sayFailed(turn, { ...about, attempt, retryInMs: ms, err }, isOutage ? 'unspent' : 'again');
      if (!spent) attempt--;
      if (ms > SHORT_MS) return { how: 'later', attempt, ms, error: keptWith(error, lost) };
      await turn.ports.pause(ms, turn.of.signal);
      turn.of.signal.throwIfAborted();
    }
  }
}

/** The open marker keeps how many connections it has lost in a row. */
const keptWith = (error: unknown, lost: number) =>
  lost === 0 ? kept(error) : JSON.stringify({ ...JSON.parse(kept(error)), lost });

const lostBefore = (error: string | null | undefined): number =>
  error ? ((JSON.parse(error) as { lost?: number }).lost ?? 0) : 0;

/** What the database does not take as a value is a failure that it can take. */
async function record(
  turn: Working,
  marker: (value: string | null, error: string | null) => Parameters<Working['record']>[0],
  value: string | null,
): Promise<void> {
  try {
    await turn.record(marker(value, null));
  } catch (error) {
    if (isLost(error) || turn.of.signal.aborted) throw error;
    await turn.record(marker(null, kept(error)));
  }
}

function delayOf(tries: Tries, attempt: number, error: unknown): number {
  if (isA(error, RetryLater) || isA(error, Snooze)) return error.delayMs;
  return tries.delayMs(attempt, error);
}

const isLost = (error: unknown) => isA(error, HoldfastError) && error.code === 'LEASE_LOST';

/** Trying again would repeat the effect and end in the same way. */
const REFUSED = new Set(['PAYLOAD_NOT_JSON', 'PAYLOAD_TOO_LARGE', 'STEP_NAMED_TWICE']);
const isRefused = (error: unknown) => isA(error, HoldfastError) && REFUSED.has(error.code);

function watched(turn: Working, what: Trying, attempt: number): Promise<string | null> {
  const work = () => limited(turn, what, attempt);
  if (!turn.ports.trying) return work();
  const isUndo = what.kind === 'u';
  const kind = isUndo ? 'undo' : what.kind.toLowerCase() === 't' ? 'transaction' : 'step';
  return turn.ports.trying({ name: isUndo ? what.name.slice(1) : what.name, kind, attempt }, work);
}

async function limited(turn: Working, what: Trying, attempt: number): Promise<string | null> {
  const { timeoutMs } = what.tries;
  const key = keyOf(turn, what.name);
  const lives = turn.of.signal;
  if (timeoutMs === null)
    return what.once({ key, attempt, signal: lives }, () => lives.throwIfAborted());
  const own = new AbortController();
  const signal = AbortSignal.any([lives, own.signal]);
  let committing = false;
  const doing = what.once({ key, attempt, signal }, () => {
    signal.throwIfAborted();
    committing = true;
  });
  const over = new AbortController();
  const late = turn.ports.pause(timeoutMs, over.signal).then(() => {
    const text = `The step "${what.name}" did not end within its time limit of ${timeoutMs} ms; its signal was aborted, and it counts as failed.`;
    const error = new HoldfastError('STEP_TIMEOUT', text);
    // It is being recorded: whatever comes of that stands.
    if (committing) return doing;
    if (!over.signal.aborted) own.abort(error);
    throw error;
  });
  late.catch(() => {});
  try {
    return await Promise.race([doing, late]);
  } finally {
    over.abort();
  }
}

/** For third parties: the same in every attempt of every turn. */
export const keyOf = ({ of, journal: { round } }: Working, name: string) =>
  `${of.id}/${name.startsWith('\u0001') ? `${name.slice(1)}/undo` : name}${round > 0 ? `/${round}` : ''}`;

export function encoded(value: unknown, name: string, maxBytes: number): string | null {
  if (value === undefined) return null;
  return encodePayload(value, {
    maxBytes,
    what: `the value of the step "${name}"`,
    consequence: 'the step is recorded as failed, and its effect is not repeated',
  });
}

/** The effect of a step that the body asked for. */
export async function tryAsked(turn: Working, ask: Ask, what: Trying): Promise<void> {
  const tried = await tryUntil(turn, what);
  if (tried.how === 'rejected') return ask.reject(tried.error);
  if (tried.how !== 'later') return;
  const { name, kind, nth } = what;
  const { attempt, ms, error } = tried;
  ask.wait = { name, kind, nth, attempt, ms, error };
  const none = { place: null, remaining: null, value: null };
  const open = { name, kind, nth, attempt, error, dueInMs: ms, ...none };
  turn.journal.setOpen(open, turn.ports.now());
}
