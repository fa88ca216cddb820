/** What a run of a workflow waits for, in words. */
import { firstLine, many, shellWord, span } from '../reading/words.js';
import type { StoredWait } from '../run/waits.js';
import type { Situation } from './facts/situation.js';
import { clock, type Reason, sinceMs } from './reasons.js';

/** Null: it waits for nothing but its turn. */
export function runWaits(situation: Situation): Reason | null {
  const { run, job } = situation;
  if (!run?.asleep) return null;
  const all = run.waits.map((wait) => words(situation, wait));
  const doing = run.state === 'undoing' ? 'It undoes what it did. ' : '';
  const signal = run.waits.find(({ kind }) => kind === 'w')?.signals?.[0];
  return {
    code: 'waiting',
    text: `${doing}It waits, and holds no worker: ${all.join('; ')}.`,
    fix: signal === undefined ? null : `holdfast workflows signal ${job.id} ${shellWord(signal)}`,
  };
}

function words(situation: Situation, wait: StoredWait): string {
  const { kind, signals, since, until, remaining, children, attempts, error } = wait;
  const name = kind === 'u' ? `the undo of "${wait.name.slice(1)}"` : `step "${wait.name}"`;
  const inMs = -sinceMs(situation, until);
  const last =
    until === null ? null : `${clock(toZ(until))} (${inMs > 0 ? `in ${span(inMs)}` : 'now'})`;
  const ago = `since ${clock(toZ(since))} (${span(sinceMs(situation, since))})`;
  if (kind === 'w') {
    const names = (signals ?? []).map((one) => `"${one}"`).join(' or ');
    const end = last === null ? 'without a time-out' : `until ${last}`;
    return `for the signal ${names} in ${name}, ${ago}, ${end}`;
  }
  if (kind === 'z') return `in ${name}, ${ago}, until ${last}`;
  if (kind === 'c')
    return `for ${remaining} of ${many(children ?? 0, 'child', 'children')} of ${name}, ${ago}`;
  const why = error === null ? '' : ` (${firstLine(error)})`;
  return `for the next try of ${name}, which failed ${many(attempts ?? 1, 'time')}${why}, at ${last}`;
}

/** As the other times of an answer. */
const toZ = (time: string) => new Date(time).toISOString();
