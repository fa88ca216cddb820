/** SQL that can be read: short functions and short chains of CTEs. What is longer today is listed, and may not grow. */
import { describe, expect, test } from 'vitest';
import { allStatements } from '../../packages/holdfast/src/postgres/statement.js';
import { FUNCTIONS } from '../../packages/holdfast/src/schema/functions.js';
import '../../packages/holdfast/src/index.js';

const MOST_LINES = 80;
const MOST_CTES = 6;

/** Statements with longer chains. Shorten them, and never add to them. */
const LONGER: Readonly<Record<string, number>> = {
  claim_keyed: 7,
  claim_rated: 7,
  replay: 7,
};

/** A statement of a verb as a function is as long as the statement. That it is the same text is tested with the protocol. */
const VERBATIM = /^inbox_verb_/;

const functions = FUNCTIONS.flatMap(({ text }) =>
  [
    ...text.matchAll(
      /^CREATE OR REPLACE FUNCTION holdfast\.(\w+)[\s\S]*?\$fn\$[\s\S]*?^\$fn\$;$/gm,
    ),
  ].map(([all, name = '']) => ({ name, text: all })),
).filter(({ name }) => !VERBATIM.test(name));

/** The longest list of CTEs that stands in one WITH. */
function longestChain(text: string): number {
  const plain = text.replace(/--.*$/gm, '').replace(/'(?:[^']|'')*'/g, "''");
  let longest = 0;
  for (const { index } of plain.matchAll(
    /\bWITH\s+(?:RECURSIVE\s+)?(?=\w+(?:\s*\([\w\s,]*\))?\s+AS\b)/g,
  ))
    longest = Math.max(longest, chainAt(plain, index));
  return longest;
}

/** Counts `name AS (…)` from a WITH to the query that uses them. */
function chainAt(text: string, from: number): number {
  const next =
    /\s*(?:WITH\s+(?:RECURSIVE\s+)?|,\s*)\w+(?:\s*\([\w\s,]*\))?\s+AS\s+(?:(?:NOT\s+)?MATERIALIZED\s+)?\(/y;
  let count = 0;
  next.lastIndex = from;
  while (next.test(text)) {
    count += 1;
    next.lastIndex = closing(text, next.lastIndex);
  }
  return count;
}

/** The place behind the parenthesis that closes what is open here. */
function closing(text: string, from: number): number {
  let open = 1;
  let at = from;
  for (; open > 0 && at < text.length; at += 1)
    open += text[at] === '(' ? 1 : text[at] === ')' ? -1 : 0;
  return at;
}

test('the functions and the statements are found', () => {
  expect(functions.map(({ name }) => name)).toContain('inbox_turns_walk');
  expect(functions.length).toBeGreaterThan(25);
  expect(allStatements().length).toBeGreaterThan(50);
  expect(
    longestChain("WITH a AS (SELECT ')' FROM b), c(x) AS MATERIALIZED (SELECT 1) SELECT"),
  ).toBe(2);
});

describe.each(functions)('$name', ({ text }) => {
  test(`has at most ${MOST_LINES} lines and ${MOST_CTES} CTEs in a row`, () => {
    expect(text.split('\n').length).toBeLessThanOrEqual(MOST_LINES);
    expect(longestChain(text)).toBeLessThanOrEqual(MOST_CTES);
  });

  test('names its parameters', () => {
    expect(text).not.toMatch(/ALIAS FOR \$\d|[^\w$']\$\d+\b/);
  });
});

test(`no statement has more than ${MOST_CTES} CTEs in a row, but for those that are listed`, () => {
  const longer = allStatements()
    .filter(({ name }) => !name.startsWith('test_'))
    .map(({ name, text }) => ({ name, ctes: longestChain(text) }))
    .filter(({ name, ctes }) => ctes > (LONGER[name] ?? MOST_CTES));
  expect(longer).toEqual([]);
});
