/**
 * A statement of a verb as a SQL function: the same text, with names in place of `$1`, `$2` and so on. So the protocol for
 * workers in other languages cannot drift from what workers in TypeScript run. A test compares the two texts, and the table
 * of states is run over both.
 */
import type { Columns, Statement } from '../../../postgres/statement.js';

/** The parameters in the order of the statement: `the_worker text`. No column may have such a name. */
export function verbatim<C extends Columns>(of: Statement<C>, ...params: readonly string[]) {
  // plpgsql has a variable of its own called found.
  const columns = Object.entries(of.columns).map(
    ([name, of]) => [name === 'found' ? 'jobs_found' : name, of] as const,
  );
  const types = columns.map(([name, { pgType }]) => `${name} ${typeText(pgType)}`);
  return `
-- The statement "${of.name}", with names for its parameters. A worker in TypeScript sends it as it is.
CREATE OR REPLACE FUNCTION holdfast.${verbName(of.name)}(${params.join(', ')})
  RETURNS TABLE (${types.join(', ')}) LANGUAGE plpgsql AS $fn$
#variable_conflict use_column
BEGIN
  FOR ${columns.map(([name]) => name).join(', ')} IN
${named(of.text, params)}
  LOOP
    RETURN NEXT;
  END LOOP;
END
$fn$;
`;
}

export const verbName = (statement: string) => `inbox_verb_${statement}`;

/** The text of a statement with these names for its parameters. */
export function named(text: string, params: readonly string[]): string {
  return text.replace(/\$(\d+)/g, (_, nth) => {
    const param = params[Number(nth) - 1];
    if (param === undefined) throw new Error(`there is no name for $${nth}`);
    return param.split(' ')[0] as string;
  });
}

const typeText = (pgType: string) => (pgType === 'inbox_status' ? `holdfast.${pgType}` : pgType);
