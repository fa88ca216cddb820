/** docs/cli.md lists every command with every option, as the command's own help does. */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { COMMANDS } from '../../packages/holdfast/src/cli/commands.js';
import { FILTERS, STATUS } from '../../packages/holdfast/src/cli/parse/filters.js';
import { ARCHIVED_STATUSES } from '../../packages/holdfast/src/inspect/job/archive.js';
import { LIVE_STATUSES } from '../../packages/holdfast/src/inspect/job/filter.js';

const PATH = fileURLToPath(new URL('../../docs/cli.md', import.meta.url));
const page = readFileSync(PATH, 'utf8');

function commandsPart(): string {
  const rows = COMMANDS.map((command) => {
    const usage = ['holdfast', ...command.words, command.args].filter(Boolean).join(' ');
    const given = command.options ?? {};
    const filtered = Object.entries(FILTERS).every(([name, option]) => given[name] === option);
    const shared = (name: string) => filtered && (name in FILTERS || name in STATUS);
    const own = Object.entries(given).filter(([name]) => !shared(name));
    const options = own.map(
      ([name, { value, help }]) => `\`--${name}${value ? ` ${value}` : ''}\` ${help}`,
    );
    const all = [...(filtered ? ['the filter'] : []), ...options].join('; ');
    return `| \`${usage.replaceAll('|', '\\|')}\` | ${command.summary} | ${all.replaceAll('|', '\\|')} |`;
  });
  return ['| Command | What it does | Options of its own |', '|---|---|---|', ...rows].join('\n');
}

test('the list of commands is that of the program', () => {
  const [before, , after] = page.split(/<!-- commands:(?:begin|end) -->/);
  const wanted = `${before}<!-- commands:begin -->\n${commandsPart()}\n<!-- commands:end -->${after}`;
  if (process.env.UPDATE_DOCS) writeFileSync(PATH, wanted);
  expect(readFileSync(PATH, 'utf8')).toBe(wanted);
});

test('every status and every filter is explained', () => {
  for (const status of [...LIVE_STATUSES, ...ARCHIVED_STATUSES])
    expect(page).toContain(`\`${status}\``);
  for (const name of Object.keys({ ...FILTERS, ...STATUS })) expect(page).toContain(`\`--${name} `);
});

test('every code of explain is in the table', () => {
  const source = readFileSync(
    new URL('../../packages/holdfast/src/inspect/explain/reasons.ts', import.meta.url),
    'utf8',
  );
  const union = /export type ReasonCode =([\s\S]*?);/.exec(source)?.[1] ?? '';
  const codes = [...union.matchAll(/'(\w+)'/g)].map((match) => match[1]);
  expect(codes.length).toBeGreaterThan(10);
  for (const code of codes) expect(page).toContain(`\`${code}\``);
});
