/**
 * The net schema: what the migrations come to, read back from the catalogs in a stable order, as text
 * that a human can read. The same on every supported version of Postgres.
 */
import type pg from 'pg';

async function lines(client: pg.Pool, text: string): Promise<string[]> {
  const { rows } = await client.query({ text, rowMode: 'array' });
  return rows.map((row) => String(row[0]));
}

export async function netSchema(client: pg.Pool): Promise<string> {
  const types = await lines(
    client,
    `
    SELECT format('CREATE TYPE %s AS ENUM (%s);', t.oid::regtype,
      string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder))
    FROM pg_type t JOIN pg_enum e ON e.enumtypid = t.oid
    WHERE t.typnamespace = 'holdfast'::regnamespace GROUP BY t.oid ORDER BY 1`,
  );
  const tables = await lines(
    client,
    `
    SELECT format(E'CREATE TABLE %s (\\n%s\\n)%s;', c.oid::regclass, string_agg(line, E',\\n' ORDER BY kind, place),
      coalesce(' WITH (' || array_to_string(c.reloptions, ', ') || ')', ''))
    FROM pg_class c CROSS JOIN LATERAL (
      SELECT 1 AS kind, a.attnum::int AS place, format('  %I %s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
        CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END,
        coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '')) AS line
      FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
      WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      UNION ALL
      SELECT 2, row_number() OVER (ORDER BY k.conname)::int, format('  CONSTRAINT %I %s', k.conname, pg_get_constraintdef(k.oid))
      FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype IN ('p', 'u', 'c', 'f')
    ) AS part
    WHERE c.relnamespace = 'holdfast'::regnamespace AND c.relkind = 'r'
    GROUP BY c.oid, c.relname, c.reloptions ORDER BY c.relname`,
  );
  const indexes = await lines(
    client,
    `
    SELECT pg_get_indexdef(i.indexrelid) || ';'
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE c.relnamespace = 'holdfast'::regnamespace AND NOT i.indisprimary ORDER BY c.relname`,
  );
  const sequences = await lines(
    client,
    `
    SELECT format('CREATE SEQUENCE %s;', c.oid::regclass) FROM pg_class c
    WHERE c.relnamespace = 'holdfast'::regnamespace AND c.relkind = 'S' ORDER BY 1`,
  );
  // new_id() wraps the server's uuidv7() or brings its own, by version; its body is left out.
  const functions = await lines(
    client,
    `
    SELECT CASE WHEN p.proname = 'new_id' THEN 'CREATE FUNCTION holdfast.new_id() RETURNS uuid; -- body by server version'
      ELSE rtrim(pg_get_functiondef(p.oid), E'\\n') || ';' END
    FROM pg_proc p WHERE p.pronamespace = 'holdfast'::regnamespace ORDER BY p.proname`,
  );
  const triggers = await lines(
    client,
    `
    SELECT pg_get_triggerdef(t.oid) || ';'
    FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
    WHERE c.relnamespace = 'holdfast'::regnamespace AND NOT t.tgisinternal
    ORDER BY c.relname, t.tgname`,
  );
  const head =
    '-- The net schema of Holdfast, read back from the catalogs. Written by `npm test -- -u`; do not edit.';
  const parts = [head, ...types, ...sequences, ...tables, ...indexes, ...functions, ...triggers];
  return `${parts.join('\n\n')}\n`;
}
