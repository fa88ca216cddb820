/**
 * Asking before something that cannot be taken back. The question and the count go to stderr. Without a
 * terminal there is nobody to ask: then it is refused, unless --yes was given.
 */
import { createInterface } from 'node:readline';
import type { Call } from '../command.js';
import { Interrupted, UsageError } from '../failures.js';

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
