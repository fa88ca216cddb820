/** The functions of the protocol are the statements of the verbs, word for word: there is one truth. */
import { expect, test } from 'vitest';
import { allStatements } from '../../packages/holdfast/src/postgres/statement.js';
import { FUNCTIONS } from '../../packages/holdfast/src/schema/functions.js';
import '../../packages/holdfast/src/index.js';

const SQL =
  /^CREATE OR REPLACE FUNCTION holdfast\.inbox_verb_(\w+)\((.*)\)$[\s\S]*?\bIN\n([\s\S]*?)\n {2}LOOP$/gm;

const functions = FUNCTIONS.flatMap(({ text }) =>
  [...text.matchAll(SQL)].map(([, name = '', params = '', body = '']) => ({ name, params, body })),
);

test('those that settle, renew, claim and recover are there', () => {
  expect(functions.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['complete', 'fail', 'renew', 'claim_keyed', 'claim_turns', 'recover']),
  );
});

test.each(functions)('$name is its statement, with names for its parameters', (one) => {
  const names = one.params.split(', ').map((param) => param.split(' ')[0]);
  const text = one.body.replace(/\b(?:the|is)_[a-z_]+\b/g, (word) => {
    const nth = names.indexOf(word);
    return nth < 0 ? word : `$${nth + 1}`;
  });
  const statement = allStatements().find(({ name }) => name === one.name);
  expect(text.trim()).toBe(statement?.text.trim());
});
