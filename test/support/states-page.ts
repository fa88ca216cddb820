/** The generated part of docs/states.md, from the transition table. */
import { TRANSITIONS } from '../../packages/holdfast/src/job/states.js';

export function statesPart(): string {
  const moves = new Map<string, string[]>();
  for (const { verb, from, to } of TRANSITIONS) {
    const arrow = `${from} --> ${to}`;
    moves.set(arrow, [...(moves.get(arrow) ?? []), verb]);
  }
  const ends = ['completed', 'cancelled', 'discarded'];
  const diagram = [
    '```mermaid',
    'stateDiagram-v2',
    '  [*] --> pending: enqueue',
    ...[...moves].map(([arrow, verbs]) => `  ${arrow}: ${verbs.join(', ')}`),
    ...ends.map((end) => `  ${end} --> [*]`),
    '```',
  ];
  const rows = TRANSITIONS.map(
    ({ verb, by, from, to, guard }) => `| ${verb} | ${by} | ${from} | ${to} | ${guard} |`,
  );
  const table = [
    '| Verb | By | From | To | The statement itself demands |',
    '|---|---|---|---|---|',
    ...rows,
  ];
  return [...diagram, '', ...table].join('\n');
}
