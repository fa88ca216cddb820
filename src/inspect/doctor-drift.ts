/** What a drifted catalogue means. */
import type { Difference } from './catalogue.js';
import { type Finding, note, ok, problem } from './doctor.js';

/** What every claim or renewal changes: an index on any of these makes it write every index of the table. */
const CLAIM_WRITES =
  /\b(status|attempts|lease_generation|isolated|started|claimed_at|lease_expires_at|claimed_by)\b/;

/** More than these are only counted. */
const MOST = 20;

export function judgeDrift(schema: string, differences: readonly Difference[]): Finding[] {
  if (differences.length === 0)
    return [ok('schema drift', 'the catalogue is what the migrations make')];
  const findings = differences.slice(0, MOST).map(({ kind, name, how, is, expected, made }) => {
    const what = `${kind} ${name}`;
    if (how === 'missing') {
      return problem(
        'schema drift',
        `The ${what} is missing.`,
        'Statements rely on it: they fail, or read the whole table.',
        kind === 'index'
          ? `SET search_path = ${schema}; ${made};`
          : `Restore it as schema.sql has it.`,
      );
    }
    if (how === 'changed') {
      return problem(
        'schema drift',
        `The ${what} is not what the migrations make.`,
        'Somebody changed it by hand; the engine was not tested with it.',
        `Restore it: ${short(expected)} (now: ${short(is)})`,
      );
    }
    if (kind === 'index' && CLAIM_WRITES.test(is.replace(/^[\s\S]*? ON /, ''))) {
      return problem(
        'schema drift',
        `There is an extra index ${name} on a column that every claim writes.`,
        'Claims are no longer HOT updates: each one writes every index, and claims get several times slower.',
        `DROP INDEX ${schema}.${quoted(name)};`,
      );
    }
    return note(
      'schema drift',
      `There is an extra ${what}.`,
      'Holdfast did not make it. It may be yours; it may cost every enqueue something.',
      'Nothing, if you know it.',
    );
  });
  if (differences.length <= MOST) return findings;
  const more = differences.length - MOST;
  return [
    ...findings,
    problem(
      'schema drift',
      `${more} more things differ.`,
      'So many differences mean that the schema was made by something else than these migrations.',
      'Compare it with schema.sql.',
    ),
  ];
}

const quoted = (name: string) =>
  /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;

const short = (text: string) => {
  const line = text.replace(/\s+/g, ' ');
  return line.length > 160 ? `${line.slice(0, 160)}…` : line;
};
