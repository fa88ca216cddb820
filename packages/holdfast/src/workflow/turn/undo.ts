/**
 * Undoing: what a run did is undone in the reverse order in which it was asked for, each undo a durable step with tries of its
 * own. A step whose outcome is unknown is undone too, and its undo is told so. An undo that fails for good stops it: the dead
 * letter names what is undone and what is not, and a retry goes on from there.
 */

import { thrownAt, type UndoReason } from '../errors.js';
import type { UndoAbout } from '../flow.js';
import { type Marker, type NewWait, UNDOING, undoOf } from '../marker.js';
import type { Ask, Undo } from './ask.js';
import type { TurnEnd } from './end.js';
import { tryUntil } from './tries.js';
import type { Working } from './working.js';

interface Undoable {
  readonly ask: Ask;
  readonly undo: Undo;
  readonly marker: Marker | undefined;
}

/** Steps that happened, or may have happened, the last first. */
function undoables(turn: Working): Undoable[] {
  return [...turn.asks.values()]
    .flatMap((ask) => {
      const { undo } = ask.of;
      const marker = ask.marker ?? turn.journal.open.get(ask.name);
      // A transaction that has no marker, or failed, has written nothing.
      const nothing = undo?.inTransaction && (marker?.place == null || marker.error !== null);
      return undo && marker && !nothing ? [{ ask, undo, marker }] : [];
    })
    .sort((a, b) => b.ask.nth - a.ask.nth);
}

/** `end`: how the run ends if there is nothing to undo. */
export async function undoAll(
  turn: Working,
  why: UndoReason,
  end: TurnEnd | null,
): Promise<TurnEnd> {
  await begin(turn, why);
  const all = undoables(turn);
  // The code does not ask for these any more, or not with an undo, so nobody knows how to undo them.
  const strange = turn.journal.effects.filter(({ name }) => !turn.asks.get(name)?.of.undo);
  for (const [at, { ask, undo, marker }] of all.entries()) {
    const name = undoOf(ask.name);
    let done = turn.journal.undone.get(name);
    if (!done) {
      const ended = await undoOne(turn, ask, undo, marker);
      if (ended !== null) return ended;
      done = turn.journal.undone.get(name);
    }
    if (done?.error != null)
      return dead(
        `The undo of "${ask.name}" failed for good: ${JSON.parse(done.error).message}. `,
        why,
        all.slice(0, at),
        all.slice(at).map((one) => one.ask.name),
      );
  }
  if (strange.length > 0) {
    const names = strange.map(({ name }) => name);
    return dead('The code has no undo for every step that is to be undone. ', why, all, names);
  }
  if ('cancelled' in why) return { kind: 'cancelled', reason: why.cancelled };
  if (all.length === 0 && end !== null) return end;
  return dead('', why, all, []);
}

function dead(
  first: string,
  why: UndoReason,
  undone: readonly Undoable[],
  left: readonly string[],
): TurnEnd {
  const list = (names: readonly string[]) => names.map((name) => `"${name}"`).join(', ') || 'none';
  const cause = 'cancelled' in why ? `It was cancelled: ${why.cancelled}` : `${why.error.message}`;
  const what = `undone: ${list(undone.map(({ ask }) => ask.name))}; not undone: ${list(left)}`;
  const text = `${first}${cause}${undone.length + left.length > 0 ? ` (${what})` : ''}`;
  const error = new UndoneError(text);
  if ('error' in why) thrownAt(error, why.error);
  return { kind: 'dead', error };
}

/** The run has failed, and says what it undid. */
class UndoneError extends Error {
  override readonly name = 'WorkflowFailed';
}

/** Recorded before the first undo: from now on every turn of the run goes on undoing. */
async function begin(turn: Working, why: UndoReason): Promise<void> {
  if (turn.journal.undoRecorded) return;
  const none = { ms: null, attempt: null, error: null };
  await turn.record({ name: UNDOING, kind: '!', nth: 0, value: JSON.stringify(why), ...none });
  turn.journal.undoRecorded = true;
}

/** Null: it is recorded, done or failed. */
async function undoOne(
  turn: Working,
  ask: Ask,
  undo: Undo,
  marker: Marker | undefined,
): Promise<TurnEnd | null> {
  const isDone = marker?.place != null && marker.error === null;
  const outcome: UndoAbout['outcome'] = isDone ? 'done' : 'unknown';
  const name = undoOf(ask.name);
  const { nth } = ask;
  const value = isDone && marker?.value != null ? JSON.parse(marker.value) : undefined;
  const run = (tx: unknown, about: object) =>
    undo.run(tx, value, { ...about, outcome } as UndoAbout);
  const tries = ask.of.tries ?? { maxAttempts: 5, timeoutMs: null, delayMs: () => 1_000 };
  const asleep = await untilDue(turn, name, []);
  if (asleep) return asleep;
  for (;;) {
    const tried = await tryUntil(turn, {
      ...{ name, kind: 'u', nth, tries, intent: false, records: undo.inTransaction },
      once: async (about, commits) => {
        if (!undo.inTransaction) {
          await run(null, about);
          return null;
        }
        await turn.transact({ name, kind: 'u', nth, attempt: about.attempt }, async (tx) => {
          await run(tx, about);
          commits();
          return null;
        });
        return null;
      },
    });
    if (tried.how !== 'later') return null;
    const { attempt, ms, error } = tried;
    const open = { place: null, remaining: null, value: null };
    const marker = { name, kind: 'u', nth, attempt, error, dueInMs: ms, ...open } as const;
    turn.journal.setOpen(marker, turn.ports.now());
    const asleep = await untilDue(turn, name, [{ name, kind: 'u', nth, attempt, ms, error }]);
    if (asleep) return asleep;
  }
}

/** Of an undo that failed. Null: it is due. */
async function untilDue(
  turn: Working,
  name: string,
  waits: readonly NewWait[],
): Promise<TurnEnd | null> {
  let written = waits;
  while (written.length > 0 || turn.journal.dueInMs(name, turn.ports.now()) > 0) {
    const suspended = await turn.suspend(written);
    if (suspended.state === 'asleep') return { kind: 'asleep', dueInMs: suspended.dueInMs };
    written = [];
  }
  return null;
}
