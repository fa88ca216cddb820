/** The schema that --from-schema names, in the text of a statement. */
import { expect, test } from 'vitest';
import { inSchema } from './postgres-source.js';

test.each(['jobs', 'My Jobs', 'a"b', 'a$$b', '$&'])('schema %s is named as it is', (schema) => {
  const quoted = `"${schema.replaceAll('"', '""')}"`;
  const text = 'SELECT FROM pgboss.job AS j JOIN pgboss.queue AS q ON true';
  expect(inSchema(text, 'pgboss', schema)).toBe(
    `SELECT FROM ${quoted}.job AS j JOIN ${quoted}.queue AS q ON true`,
  );
});
