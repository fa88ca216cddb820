/**
 * The figures of the demo in words: the line that stays, the fleet below it, and the summary at
 * the end. Every line fits a terminal of 80 columns until the figures have six digits.
 */
import type { Overview } from 'holdfast/internal';
import type { Receivers } from './events/receivers.js';
import type { Member } from './fleet/member.js';
import { MISHAPS, type Recoveries, type Recovery } from './fleet/recoveries.js';
import { deadLetters, type Picture, waiting } from './picture.js';
import type { Span } from './screen.js';
import type { Report } from './shop/office.js';
import { holds, type Proof } from './shop/proof.js';
import type { Till } from './shop/till.js';

const count = (value: number) => value.toLocaleString('en');
const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;
const jobs = (value: number) => `${count(value)} ${value === 1 ? 'job' : 'jobs'}`;

/** Nothing is what is wanted. */
const none = (value: number): Span => [count(value), value === 0 ? 'good' : 'bad'];

export function figureLine({ proof, seen }: Picture): Span[] {
  const { accepted, completed, lost, doubled, outOfOrder } = proof;
  const line: Span[] = [
    'accepted ',
    [count(accepted), 'bold'],
    ', done ',
    [count(completed), 'bold'],
  ];
  line.push(`, waiting ${count(waiting(seen))}, dead letters ${count(deadLetters(seen))}`);
  line.push(', lost ', none(lost), ', doubled ', none(doubled));
  if (outOfOrder > 0) line.push(', out of order ', none(outOfOrder));
  return line;
}

/** Requests that the receivers took. */
export const toldLine = ({ events, webhooks }: Receivers['heard']): Span[] => [
  `told ${count(events)} events and ${count(webhooks)} webhooks`,
];

export const rateSpan = ({ perSecond }: Picture): Span => `, ${Math.round(perSecond)}/s`;

/** Each worker with the jobs that it holds, or with what was done to it. */
export function fleetLine(members: readonly Member[], seen: Overview): Span[] {
  if (members.length === 0) return [['no worker is left; a adds one', 'worry']];
  const held = new Map(seen.workers.map(({ worker, held: inHand }) => [worker.id, inHand]));
  const each = members.flatMap(({ number, id, condition }): Span[] => {
    if (condition === 'runs') return [`  ${number} (${held.get(id ?? '') ?? 0})`];
    return [`  ${number} `, [condition, 'worry']];
  });
  return ['workers (jobs held)', ...each];
}

const AFTER = { killed: 'kill -9', frozen: 'it froze', 'cut off': 'the cut' } as const;

export function recoveryText({ number, mishap, held, tookMs }: Recovery): string {
  const what = held ? `its ${jobs(held)}` : 'its keys';
  return `worker ${number}: ${what} went to others ${seconds(tookMs ?? 0)} after ${AFTER[mishap]}`;
}

/** By mishap: how many, and after how long. */
function recoveryRows({ done, open }: Recoveries): [name: string, value: string][] {
  const rows = MISHAPS.flatMap((mishap): [string, string][] => {
    const of = done.filter((one) => one.mishap === mishap).map(({ tookMs }) => tookMs ?? 0);
    if (of.length === 0) return [];
    const [least, most] = [Math.min(...of), Math.max(...of)];
    const range =
      of.length > 1 ? `${(least / 1000).toFixed(1)} to ${seconds(most)}` : seconds(most);
    return [[`  ${mishap}`, `${of.length}, after ${range}`]];
  });
  const pending = open.length > 0 ? `, ${open.length} not over yet` : '';
  return [['recoveries', `${done.length}${pending}`], ...rows];
}

export function summaryLines(picture: Picture, recoveries: Recoveries): Span[][] {
  const { proof, seen } = picture;
  const { orders, accepted, completed, lost, doubled, outOfOrder } = proof;
  const [left, dead] = [waiting(seen), deadLetters(seen)];
  const row = (name: string, ...value: Span[]): Span[] => [`  ${name.padEnd(16)}`, ...value];
  return [
    row('accepted', `${jobs(accepted)} of ${count(orders)} orders`),
    row('completed', count(completed)),
    row('waiting', count(left), left > 0 ? ', retries among them: the next start goes on' : ''),
    row('dead letters', count(dead), dead > 0 ? ', for a human to look at' : ''),
    row('lost', none(lost)),
    row('doubled effects', none(doubled)),
    row('out of order', none(outOfOrder)),
    ...recoveryRows(recoveries).map(([name, value]) => row(name, value)),
  ];
}

export function reportLines({ rows }: Report): Span[][] {
  return rows.map(([name, text, kept]) => [`  ${name.padEnd(16)}`, kept ? text : [text, 'bad']]);
}

/** What the proof is made of. */
export interface Evidence {
  readonly proof: Proof;
  readonly checkouts: Report;
  readonly office: Report;
  readonly news: Report;
  readonly till: Till;
}

export function isProven({ proof, checkouts, office, news, till }: Evidence): boolean {
  return holds(proof) && checkouts.kept && office.kept && news.kept && till.twice === 0;
}

export function verdict({ proof, checkouts, office, news, till }: Evidence): Span {
  if (!holds(proof))
    return ['THE PROOF FAILED: see lost, doubled effects and out of order above.', 'bad'];
  if (!checkouts.kept)
    return ['THE PROOF FAILED: a checkout did something twice, or left something undone.', 'bad'];
  if (!office.kept) return ['THE PROOF FAILED: a limit of the back office did not hold.', 'bad'];
  if (!news.kept) return ['THE PROOF FAILED: see events, webhooks and sales above.', 'bad'];
  if (till.twice > 0)
    return ['THE PROOF FAILED: the till was counted twice for one tick of its schedule.', 'bad'];
  return ['Nothing was lost, nothing was done twice, and every order was kept in order.', 'good'];
}
