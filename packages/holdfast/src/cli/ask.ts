/**
 * Asking before something that cannot be taken back, and doing it to many jobs. The question and the count go to stderr.
 * Without a terminal there is nobody to ask: then it is refused, unless --yes was given.
 */
import { createInterface } from 'node:readline';
import { type Call, EXIT } from './command.js';
import { Interrupted, UsageError } from './failures.js';
import { Progress } from './print/progress.js';

export async function confirmed(call: Call, what: string): Promise<boolean> {
  if (call.given.flag('yes')) return true;
  const { stderr } = call.out.streams;
  if (!process.stdin.isTTY || !stderr.isTTY) {
    throw new UsageError(
      `This would ${what}. Nothing was done: there is no terminal to ask on, so pass --yes to do it.`,
    );
  }
  const lines = createInterface({ input: process.stdin, output: stderr });
  try {
    const answer = await new Promise<string>((resolve, reject) => {
      lines.question(`This will ${what}. Go on? [y/N] `, resolve);
      lines.once('close', () => resolve(''));
      // readline takes Ctrl-C for itself.
      lines.once('SIGINT', () => {
        stderr.write('\n');
        reject(new Interrupted());
      });
    });
    if (/^y(es)?$/i.test(answer.trim())) return true;
    call.out.note('Nothing was done.');
    return false;
  } finally {
    lines.close();
  }
}

interface Asked {
  readonly matched: number;
  /** What is said when nothing matches. */
  readonly none: string;
  /** Such as `retry 3 dead letters of "inbox"`. */
  readonly doing: string;
  /** For programs: what was done, as long as it is nothing. */
  readonly nothing: object;
  /** False: it is done without a question. */
  readonly ask?: boolean;
}

/** Null: go on. Otherwise nothing is done, and this is the exit code; `ok` where that is as it should be. */
export async function asked(call: Call, about: Asked, ok: number = EXIT.ok) {
  const { given, out } = call;
  const { matched, doing, nothing } = about;
  if (matched > 0 && !given.flag('dry-run'))
    return about.ask === false || (await confirmed(call, doing)) ? null : EXIT.failed;
  if (out.json) await out.value({ matched, ...nothing, finished: matched === 0 });
  out.note(
    matched === 0 ? `${about.none}; nothing was done.` : `This would ${doing}. Nothing was done.`,
  );
  return ok;
}

/** Sums so far, of steps that commit by themselves. */
interface Step {
  readonly found: number;
  readonly moved: number;
  readonly keyTaken?: number;
  readonly finished: boolean;
}

/** Queue by queue, step by step, until it is interrupted or fails: then `error` is why, and the sums are what was done. */
export async function inEveryQueue(
  { out }: Call,
  total: number,
  queues: Iterable<string>,
  stepsOf: (queue: string) => AsyncIterable<Step>,
): Promise<Required<Step> & { readonly error?: unknown }> {
  const progress = new Progress(out, total);
  let sum = { found: 0, moved: 0, keyTaken: 0, finished: true };
  try {
    for (const queue of queues) {
      const before = sum;
      sum = { ...before, finished: false };
      for await (const { found, moved, keyTaken = 0, finished } of stepsOf(queue)) {
        sum = {
          found: before.found + found,
          moved: before.moved + moved,
          keyTaken: before.keyTaken + keyTaken,
          finished,
        };
        progress.update(sum.found);
      }
      if (!sum.finished) break;
    }
    return sum;
  } catch (error) {
    return { ...sum, finished: false, error };
  } finally {
    progress.end();
  }
}

/** The batch that was under way when the connection broke may have been committed. */
export const soFar = (moved: number, done: string) =>
  `At least ${moved.toLocaleString('en')} were ${done}, and the same command goes on with the rest`;
