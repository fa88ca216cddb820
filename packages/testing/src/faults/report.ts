/** What a handler that did not survive its faults is told, in words for whoever reads it for the first time. */

export interface Finding {
  /** Which fault, and where it struck. */
  readonly title: string;
  /** What happened, in order. */
  readonly story: readonly string[];
  /** How often the effect happened, and how often it happens undisturbed. */
  readonly times: number;
  readonly usual: number;
  /** How the job ended. */
  readonly status: string;
  /** It struck between an effect of `ctx.once` and its marker. */
  readonly inGap: boolean;
}

const DOUBLED = [
  'A job runs at least once: when a worker dies, another one runs the handler again from its beginning. A second run must not repeat the effect.',
  'Ways to make it safe:',
  '  - an effect in this Postgres: do it in ctx.transaction(async (tx) => …), which commits it together with the completion;',
  '  - an effect elsewhere: do it in ctx.once("name", () => …), and if the other system takes an idempotency key, give it one made of ctx.id;',
  '  - a row of your own: give it a unique key, and write it with ON CONFLICT DO NOTHING.',
];

const IN_GAP = [
  'ctx.once cannot know of an effect whose marker was never written; no queue can. Give the other system an idempotency key made of ctx.id, such as ctx.id + ":mail":',
  'then a repeated call does nothing. If a rare repetition is acceptable, leave { onceGap: "fail" } out.',
];

const LOST = [
  'The job ended, and its effect is missing. Something marks the work as done before it is done:',
  '  write such a mark after the effect, or in the same transaction.',
];

const UNFINISHED = [
  'The effect is right, but the job did not complete: a second run of the handler fails, because the first one left something behind.',
  '  Let a second run find that and return, for example by ON CONFLICT DO NOTHING instead of an INSERT that throws.',
];

function verdict({ times, usual, status }: Finding): string {
  if (times > usual) return `its effect happened ${times} × instead of ${usual} ×`;
  if (times < usual) return `its effect happened ${times} × instead of ${usual} ×; it was lost`;
  return `its job ended as "${status}" instead of "completed"`;
}

function advice({ times, usual, inGap }: Finding): readonly string[] {
  if (times > usual) return inGap ? IN_GAP : DOUBLED;
  return times < usual ? LOST : UNFINISHED;
}

export function failedReport(type: string, found: readonly Finding[], tried: number): Error {
  const worst = found[0] as Finding;
  const others = found.slice(1).map((one) => `  - ${one.title}: ${verdict(one)}`);
  const lines = [
    `The handler of "${type}" does not survive a fault: ${verdict(worst)}.`,
    '',
    `Fault: ${worst.title}.`,
    'What happened:',
    ...worst.story.map((sentence, index) => `  ${index + 1}. ${sentence}`),
    '',
    ...advice(worst),
    ...(others.length > 0
      ? ['', `It also failed at (${found.length} of ${tried} faults):`, ...others]
      : []),
  ];
  return new Error(lines.join('\n'));
}
