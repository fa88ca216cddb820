/** Acts of a person, said in a message that stays for a while; a discard and a cancel can be taken back from there. */
import { signal } from '@preact/signals';
import { post } from './api';
import { acted, snapshot } from './live';

export interface Message {
  readonly id: number;
  readonly text: string;
  readonly bad: boolean;
  readonly undo: (() => void) | null;
}

export const messages = signal<readonly Message[]>([]);
let count = 0;

const SHOWN_MS = 8_000;
/** Long enough to notice what one has done. */
const UNDO_MS = 30_000;
/** The ids of more are not kept for the way back. */
export const MAX_UNDO = 10_000;

/** Where the archive is kept for less, maintenance may have deleted them by then. */
export const canUndo = (queue: string): boolean => {
  const seen = snapshot.peek();
  const found = seen && [...seen.queues, ...seen.unreadable].find((one) => one.queue === queue);
  return !found || found.archiveRetentionMs >= UNDO_MS;
};

export function say(text: string, options: { bad?: boolean; undo?: () => void } = {}): void {
  const id = ++count;
  const undo = options.undo ?? null;
  // What can still be taken back stays.
  const kept = messages.value.filter((one, at, all) => one.undo !== null || at >= all.length - 3);
  messages.value = [...kept, { id, text, bad: options.bad ?? false, undo }];
  setTimeout(() => dismiss(id), undo ? UNDO_MS : SHOWN_MS);
}

export function dismiss(id: number): void {
  messages.value = messages.value.filter((message) => message.id !== id);
}

/** Does it and says so; false: it was refused, and that was said. */
async function doing(work: () => Promise<string>): Promise<boolean> {
  try {
    const text = await work();
    if (text) say(text);
    return true;
  } catch (error) {
    say((error as Error).message, { bad: true });
    return false;
  } finally {
    acted.value += 1;
  }
}

/** Posts it, and says what came of it. */
export const send = <Answer>(
  path: string,
  body: object,
  said: string | ((answer: Answer) => string),
): Promise<boolean> =>
  doing(async () => {
    const answer = await post<Answer>(path, body);
    return typeof said === 'string' ? said : said(answer);
  });

export type Verb = 'retry' | 'discard' | 'cancel';
export const NAMES: Readonly<Record<Verb, string>> = {
  retry: 'Retry',
  discard: 'Discard',
  cancel: 'Cancel',
};
const PAST: Readonly<Record<Verb, string>> = {
  retry: 'retried',
  discard: 'discarded',
  cancel: 'cancelled',
};

export const jobsText = (count: number) =>
  `${count.toLocaleString('en')} ${count === 1 ? 'job' : 'jobs'}`;

const BATCH = 1_000;

/** What was discarded is a dead letter again; what was cancelled waits again. */
async function takeBack(verb: Verb, queue: string, ids: readonly string[]): Promise<string> {
  const asDeadLetters = verb === 'discard';
  let [moved, keyTaken] = [0, 0];
  for (let at = 0; at < ids.length; at += BATCH) {
    const answer = await post<{ moved: number; keyTaken: number }>('api/jobs/replay', {
      queue,
      ids: ids.slice(at, at + BATCH),
      asDeadLetters,
      reason: 'undone',
    });
    moved += answer.moved;
    keyTaken += answer.keyTaken;
  }
  const stayed =
    keyTaken > 0 ? ` ${jobsText(keyTaken)} stayed: their key stands for another job.` : '';
  return `Undone: ${jobsText(moved)} ${asDeadLetters ? 'dead again, as before' : 'back in the queue'}.${stayed}`;
}

/** Says what was done, with the way back where there is one. */
export function sayMoved(verb: Verb, queue: string, ids: readonly string[], found: number): void {
  const left = found - ids.length;
  const rest = left > 0 ? ` ${jobsText(left)} had changed meanwhile and stayed as they are.` : '';
  const text = `${jobsText(ids.length)} ${PAST[verb]}.${rest}`;
  const undo = () => void doing(() => takeBack(verb, queue, ids));
  const few = ids.length > 0 && ids.length <= MAX_UNDO;
  const isUndoable = verb !== 'retry' && few && canUndo(queue);
  say(text, isUndoable ? { undo } : {});
}

export const actOn = (verb: Verb, queue: string, ids: readonly string[]): Promise<boolean> =>
  send<{ moved: string[] }>('api/jobs/act', { verb, queue, ids }, ({ moved }) => {
    sayMoved(verb, queue, moved, ids.length);
    return '';
  });
