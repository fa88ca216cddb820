/** What a drifted catalogue means. How to mend it is in drift-fixes.ts. */
import type { Difference } from './catalogue.js';
import { type Finding, note, ok, problem } from './doctor.js';
import { fixOf, inFixingOrder } from './drift-fixes.js';

/** What every claim or renewal changes: an index on any of these makes it write every index of the table. */
const CLAIM_WRITES =
  /\b(status|attempts|lease_generation|isolated|started|claimed_at|lease_expires_at|claimed_by)\b/;

/** How ids are made where the server has no uuidv7() of its own; see the first migration. */
const OLDER_IDS = /\bint8send\(\(extract\(epoch FROM clock_timestamp\(\)\) \* 1000\)::bigint\)/;

/** More than these are only counted. */
const MOST = 20;

export function judgeDrift(schema: string, found: readonly Difference[]): Finding[] {
  if (found.length === 0) return [ok('schema drift', 'the catalogue is what the migrations make')];
  const differences = inFixingOrder(found);
  const findings = differences.slice(0, MOST).map((one) => judgeOne(schema, one));
  if (differences.length <= MOST) return findings;
  const more = differences.length - MOST;
  return [
    ...findings,
    problem(
      'schema drift',
      `${more} more things differ.`,
      'So many differences mean that the schema was made by something else than these migrations.',
      'Compare it with a schema that `holdfast migrate` makes in an empty database.',
    ),
  ];
}

function judgeOne(schema: string, one: Difference): Finding {
  const { kind, name, how, is } = one;
  const what = `${kind} ${name}`;
  if (how === 'missing') {
    return problem(
      'schema drift',
      `The ${what} is missing.`,
      'Statements rely on it: they fail, or read the whole table.',
      fixOf(schema, one),
    );
  }
  if (how === 'changed' && name === 'new_id()' && OLDER_IDS.test(is)) {
    return note(
      'schema drift',
      'The function new_id() is that of a Postgres before 18.',
      'The schema was made there and came with pg_upgrade or a dump. Ids made in SQL are as unique, but those of one millisecond are in no order.',
      fixOf(schema, one),
    );
  }
  if (how === 'changed') {
    return problem(
      'schema drift',
      `The ${what} is not what the migrations make.`,
      `Somebody changed it by hand; the engine was not tested with it. ${difference(one)}`,
      fixOf(schema, one),
    );
  }
  if (kind === 'index' && CLAIM_WRITES.test(is.replace(/^[\s\S]*? ON /, ''))) {
    return problem(
      'schema drift',
      `There is an extra index ${name} on a column that every claim writes.`,
      'Claims are no longer HOT updates: each one writes every index, and claims get several times slower.',
      fixOf(schema, one),
    );
  }
  return note(
    'schema drift',
    `There is an extra ${what}.`,
    'Holdfast did not make it. It may be yours; it may cost every enqueue something.',
    'Nothing, if you know it.',
  );
}

const BEFORE = 30;
const SHOWN = 120;

/** Both from a little before the place where they part. */
function difference({ is, expected }: Difference): string {
  const [now, wanted] = [is, expected].map((text) => text.replace(/\s+/g, ' ').trim()) as [
    string,
    string,
  ];
  let at = 0;
  while (at < now.length && now[at] === wanted[at]) at++;
  const from = Math.max(0, at - BEFORE);
  const shown = (text: string) =>
    `${from > 0 ? '…' : ''}${text.slice(from, from + SHOWN)}${text.length > from + SHOWN ? '…' : ''}`;
  return `It is: ${shown(now) || '(nothing)'} It should be: ${shown(wanted) || '(nothing)'}`;
}
