/** What the author of a workflow is told that did not survive its faults. */

/** What a run came to. */
export interface Came {
  readonly outcome: string;
  /** Null: it completed. */
  readonly error: string | null;
  readonly undone: readonly string[];
  /** How often each effect happened. */
  readonly effects: ReadonlyMap<string, number>;
  /** How often each function ran. */
  readonly calls: ReadonlyMap<string, number>;
}

export interface RunFinding {
  /** Which fault, and where it struck. */
  readonly title: string;
  /** What happened, in order. */
  readonly story: readonly string[];
  readonly came: Came;
}

/** Effects that happened as often as undisturbed are left out. */
function changed(usual: Came, came: Came) {
  return [...usual.effects].flatMap(([name, before]) => {
    const times = came.effects.get(name) ?? 0;
    return times === before ? [] : [{ name, times, before }];
  });
}

/** Functions that ran more often than undisturbed. */
const repeated = (usual: Came, came: Came) =>
  [...came.calls].flatMap(([word, times]) => (times > (usual.calls.get(word) ?? 0) ? [word] : []));

const lostUndos = (usual: Came, came: Came) =>
  usual.undone.filter((name) => !came.undone.includes(name));

export const isSame = (usual: Came, came: Came) =>
  changed(usual, came).length === 0 &&
  lostUndos(usual, came).length === 0 &&
  usual.outcome === came.outcome;

/** An effect happened more often, and no function ran again that could have had it. */
const isOutside = (usual: Came, came: Came) =>
  repeated(usual, came).length === 0 &&
  changed(usual, came).some(({ times, before }) => times > before);

/** An effect is named by the step that ran again, and by the name that the test gave it. */
function verdict(usual: Came, came: Came): string {
  const [lost] = lostUndos(usual, came);
  if (lost !== undefined) return `the undo of ${JSON.stringify(lost)} was lost`;
  const [one] = changed(usual, came);
  if (!one) return `its run ended as "${came.outcome}" instead of "${usual.outcome}"`;
  const who = repeated(usual, came).join(' and ') || 'the body, outside of any step,';
  const which = one.name === '' ? 'the effect' : `the effect ${JSON.stringify(one.name)}`;
  const times = `happened ${one.times} × instead of ${one.before} ×`;
  return `${which} of ${who} ${times}${one.times < one.before ? '; it was lost' : ''}`;
}

const DOUBLED = [
  'A step runs at least once: if its worker dies before the step is recorded, another worker runs it again. A second run must not repeat the effect.',
  'Ways to make it safe:',
  '  - an effect elsewhere: pass the `key` that the function of the step gets to the other system as its idempotency key; it is the same in every run of the step;',
  '  - an effect in this Postgres: use flow.transaction("name", async (tx) => …), which commits your rows and the record of the step together;',
  '  - an effect outside of any step: put it into one. The body is called again in every turn.',
];

const LOST = [
  'The effect was lost: something is marked as done before it is done. Do the effect first and let the step return; its record comes after it.',
];

const UNFINISHED = [
  'A second run of a step fails, because the first one left something behind. Let a second run find that and return.',
];

function advice(usual: Came, came: Came): readonly string[] {
  const [one] = changed(usual, came);
  if (!one) return UNFINISHED;
  return one.times > one.before ? DOUBLED : LOST;
}

export function runReport(
  type: string,
  usual: Came,
  found: readonly RunFinding[],
  tried: number,
): Error {
  // It says more than those in which a step happened to run again beside it.
  const worst = found.find(({ came }) => isOutside(usual, came)) ?? (found[0] as RunFinding);
  const { title, story, came } = worst;
  const others = found
    .filter((one) => one !== worst)
    .map((one) => `  - ${one.title}: ${verdict(usual, one.came)}`);
  const error = came.error === null || came.outcome === usual.outcome ? [] : [came.error, ''];
  const lines = [
    `The workflow "${type}" does not survive a fault: ${verdict(usual, came)}.`,
    '',
    `Fault: ${title}.`,
    'What happened:',
    ...story.map((sentence, index) => `  ${index + 1}. ${sentence}`),
    ...['', ...error, ...advice(usual, came)],
    ...(others.length > 0
      ? ['', `It also failed at (${found.length} of ${tried} faults):`, ...others]
      : []),
  ];
  return new Error(lines.join('\n'));
}
