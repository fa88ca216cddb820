/** The columns of real tables, and the options in the type declarations of a package. */
import { readFileSync } from 'node:fs';

/** For `db.rows`: name, the columns of a table as [name, …]. */
export const COLUMNS = `
SELECT a.attname AS name FROM pg_attribute AS a
WHERE a.attrelid = $1::text::regclass AND a.attnum > 0 AND NOT a.attisdropped`;

/** The members of these interfaces, or types, in one text of declarations. */
export function membersOf(declarations: string, names: readonly string[]): string[] {
  return names.flatMap((name) => {
    const head = new RegExp(`(?:interface|type) ${name}\\b[^{;]*\\{`).exec(declarations);
    if (!head) throw new Error(`There is no ${name} in the declarations.`);
    const members: string[] = [];
    let depth = 1;
    const start = head.index + head[0].length;
    const lines = declarations.slice(start).replace(/\/\*[\s\S]*?\*\//g, '');
    for (const line of lines.split('\n')) {
      const member = /^\s*(?:readonly )?(\w+)\??:/.exec(line)?.[1];
      if (depth === 1 && member) members.push(member);
      for (const mark of line) depth += mark === '{' ? 1 : mark === '}' ? -1 : 0;
      if (depth <= 0) break;
    }
    return members;
  });
}

export const declarationsIn = (...paths: string[]): string =>
  paths
    .map((path) => readFileSync(new URL(`node_modules/${path}`, import.meta.url), 'utf8'))
    .join('\n');
