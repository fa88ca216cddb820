// `docs/benchmarks.md` and its charts, from the last result of every part.
import { mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { barChart } from './chart.mjs';

const DOCS = fileURLToPath(new URL('../../docs/', import.meta.url));

const cell = (text) => String(text).replaceAll('|', '\\|');
const row = (cells) => `| ${cells.map(cell).join(' | ')} |`;
const grid = (columns, rows) =>
  [row(columns), row(columns.map(() => '---')), ...rows.map(row)].join('\n');

function configurations(systems, versions) {
  const rows = Object.entries(versions).flatMap(([name, version]) =>
    Object.entries(systems[name].configurations).map(([configuration, { says, source }]) => [
      `${name} ${version}`,
      configuration,
      says,
      source,
    ]),
  );
  return grid(['System', 'Configuration', 'What it sets', 'Documented at'], rows);
}

function section(page) {
  const lines = [`## ${page.name[0].toUpperCase()}${page.name.slice(1)}`, ''];
  lines.push(
    `\`npm run bench -- ${page.name}${page.quick ? ' --quick' : ''}\`, ${page.at.slice(0, 10)}, ` +
      `${page.seconds.toFixed(0)} s${page.quick ? '. **A quick run: noisy.**' : '.'}`,
    '',
  );
  for (const table of page.tables) {
    lines.push(`**${table.title}**`, '', grid(table.columns, table.rows), '');
    if (table.note) lines.push(table.note, '');
  }
  for (const { file, title } of page.charts) lines.push(`![${title}](benchmarks/${file}.svg)`, '');
  if (page.figures.length > 0) {
    const rows = page.figures.map(({ label, value, goal, holds }) => [
      `\`${label}\``,
      value,
      goal,
      holds ? 'ok' : '**short**',
    ]);
    lines.push(grid(['Figure', 'Value', 'Goal', ''], rows), '');
  }
  return lines.join('\n');
}

export function writeDocs(pages, systems) {
  if (pages.length === 0) return;
  const { machine, versions } = pages.at(-1);
  mkdirSync(`${DOCS}benchmarks`, { recursive: true });
  for (const chart of pages.flatMap((page) => page.charts))
    writeFileSync(`${DOCS}benchmarks/${chart.file}.svg`, barChart(chart));
  const short = pages.flatMap((page) => page.figures).filter(({ holds }) => !holds).length;
  const text = `# Benchmarks

Written by \`npm run bench\`, which anybody can repeat: it installs the peers by itself, starts a Postgres of its
own, runs every system on it in turns, prints each figure with its goal, and ends with 1 if any is short.
What must not grow with a fleet, a backlog or an archive is measured by [a part of its own](benchmarks-fleet-size.md), and so is [what workflows cost](benchmarks-workflows.md).
${short === 0 ? 'Every goal was met.' : `${short} of the figures below are short of their goal, and are marked; [decision 9](decisions/0009-the-calm-engine.md) says what holds them.`}

## Machine and method

${grid(['', ''], Object.entries(machine.words))}

- All systems run on this one server and on the same Node. Repetitions are interleaved; a value is the median,
  with the smallest and the largest beside it. Between repetitions tables are truncated and a checkpoint is made;
  then the jobs are written, and the tables are vacuumed and analysed.
- Workers and producers are processes of their own on the same machine as Postgres, and share its cores.
- Payloads are \`{ "orderId": 17 }\`; handlers do nothing unless a part says otherwise.
- Holdfast runs with its defaults everywhere, but for 16 handlers a worker in \`steady\`. Peers run through their public API, in their default and in their
  fastest documented configuration:

${configurations(systems, versions)}

${pages.map(section).join('\n')}`;
  writeFileSync(`${DOCS}benchmarks.md`, `${text.trimEnd()}\n`);
  console.error(`written: ${DOCS}benchmarks.md`);
}
