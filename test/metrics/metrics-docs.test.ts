/** The pages about metrics, the dashboard and the alert rules speak of metrics that exist, and of all of them. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { parse as parseYaml } from 'yaml';
import { COMMANDS } from '../../packages/holdfast/src/cli/commands.js';
import { parse } from '../../packages/holdfast/src/cli/parse/parse.js';
import { CATALOGUE } from '../../packages/holdfast/src/metrics/index.js';
import { metricsPart } from '../support/metrics-page.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const SOURCES = [
  ...['holdfast', 'testing', 'embedded', 'dashboard'].map((name) => `packages/${name}/src`),
  'apps/demo/src',
];
const read = (name: string) => readFileSync(join(ROOT, name), 'utf8');

/** What may stand in a query, with the labels that it has. */
const series = new Map<string, readonly string[]>(
  CATALOGUE.flatMap(({ name, kind, labels }) =>
    kind === 'histogram'
      ? [
          [`${name}_bucket`, [...labels, 'le']],
          [`${name}_sum`, labels],
          [`${name}_count`, labels],
        ]
      : [[name, labels]],
  ) as [string, readonly string[]][],
);

/** Prometheus adds these at the scrape. */
const ADDED = ['instance', 'job'];

function problemsOf(query: string): string[] {
  const problems: string[] = [];
  const used = new Set<string>(ADDED);
  for (const [, name, selectors] of query.matchAll(/\b(holdfast_\w+)(?:\{([^}]*)\})?/g)) {
    const labels = series.get(name as string);
    if (!labels) problems.push(`${name} does not exist`);
    for (const label of labels ?? []) used.add(label);
    for (const [, label] of (selectors ?? '').matchAll(/(\w+)\s*[=!]~?/g)) {
      if (labels && !labels.includes(label as string)) problems.push(`${name} has no ${label}`);
    }
  }
  for (const [, list] of query.matchAll(/\b(?:by|on) \(([^)]*)\)/g)) {
    for (const label of (list as string).split(/,\s*/)) {
      if (label !== '' && !used.has(label)) problems.push(`nothing in it has the label ${label}`);
    }
  }
  if (used.size === ADDED.length && !/holdfast_/.test(query)) problems.push('no metric at all');
  if (depth(query) !== 0) problems.push('the parentheses do not match');
  return problems.map((problem) => `${problem}: ${query}`);
}

function depth(query: string): number {
  let open = 0;
  for (const sign of query) {
    if ('([{'.includes(sign)) open++;
    if (')]}'.includes(sign)) open--;
    if (open < 0) return open;
  }
  return open;
}

test('the reference in docs/metrics.md is that of the catalogue', () => {
  const [before, , after] = read('docs/metrics.md').split(/<!-- metrics:(?:begin|end) -->/);
  const wanted = `${before}<!-- metrics:begin -->\n${metricsPart()}\n<!-- metrics:end -->${after}`;
  if (process.env.UPDATE_DOCS) writeFileSync(join(ROOT, 'docs/metrics.md'), wanted);
  expect(read('docs/metrics.md')).toBe(wanted);
});

describe('docs/grafana.json', () => {
  interface Panel {
    id: number;
    type: string;
    title: string;
    gridPos: { x: number; y: number; w: number; h: number };
    targets?: { expr: string }[];
  }
  const dashboard = JSON.parse(read('docs/grafana.json'));
  const panels: Panel[] = dashboard.panels;
  const queries = panels.flatMap(({ targets }) => (targets ?? []).map(({ expr }) => expr));

  test('asks for metrics and labels that exist, and leaves no metric out', () => {
    const variables = dashboard.templating.list.map(({ query }: { query: string }) => query);
    const all = [...queries, ...variables.filter((query: string) => query !== 'prometheus')];
    expect(all.length).toBeGreaterThan(20);
    expect(all.flatMap(problemsOf)).toEqual([]);
    const missing = CATALOGUE.filter(({ name }) => !queries.some((query) => query.includes(name)));
    expect(missing.map(({ name }) => name)).toEqual([]);
  });

  test('has panels with ids of their own that do not lie on each other', () => {
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, n) => `${x + (n % w)},${y + Math.floor(n / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
  });
});

test('every command that the runbook names is one, with options that it has', () => {
  const page = read('docs/runbook.md');
  const inline = [...page.matchAll(/`holdfast ([a-z][^`]*)`/g)].map(([, line]) => line as string);
  const blocks = [...page.matchAll(/^holdfast ([^#\n]+)/gm)].map(([, line]) => line as string);
  expect(inline.length).toBeGreaterThan(20);
  for (const line of [...inline, ...blocks]) {
    const { command } = parse(line.trim().split(/\s+/), COMMANDS);
    expect([line, command === null]).toEqual([line, false]);
  }
  expect(() => parse(['jobs', 'ls', '--expired'], COMMANDS)).toThrow();
});

describe('docs/alerts.yml', () => {
  interface Rule {
    alert: string;
    expr: string;
    for?: string;
    labels: { severity: string };
    annotations: { summary: string; runbook: string };
  }
  const rules: Rule[] = parseYaml(read('docs/alerts.yml'), {
    strict: true,
    uniqueKeys: true,
  }).groups.flatMap((group: { rules: Rule[] }) => group.rules);

  test('asks for metrics and labels that exist', () => {
    expect(rules.length).toBeGreaterThan(10);
    expect(rules.flatMap(({ expr }) => problemsOf(expr))).toEqual([]);
    expect(problemsOf('max by (shelf) (holdfast_things{queue="x"})')).toHaveLength(2);
  });

  test('says of each alert how bad it is, what has happened and which section of the runbook to read', () => {
    const sections = [...read('docs/runbook.md').matchAll(/^### (\w+)$/gm)].map(([, name]) => name);
    expect(rules.map(({ alert }) => alert)).toEqual(
      sections.filter((name) => /^Holdfast/.test(name!)),
    );
    for (const { alert, labels, annotations, for: lasting } of rules) {
      expect(alert).toMatch(/^Holdfast[A-Z]\w+$/);
      expect(['critical', 'warning']).toContain(labels.severity);
      expect(annotations.summary.length).toBeGreaterThan(20);
      expect(annotations.runbook).toBe(`runbook.md#${alert.toLowerCase()}`);
      if (lasting !== undefined) expect(lasting).toMatch(/^\d+[smh]$/);
    }
  });

  test('and the runbook says of each what it means, where to look and what to do', () => {
    const parts = read('docs/runbook.md').split(/^### /m).slice(1);
    for (const { alert } of rules) {
      const part = parts.find((text) => text.startsWith(`${alert}\n`)) as string;
      for (const word of ['**Means.**', '**Look.**', '**Do.**'])
        expect([alert, part]).toEqual([alert, expect.stringContaining(word)]);
      expect(part).toMatch(/`holdfast [a-z]/);
    }
  });
});

test('every line that is logged is in the list of docs/metrics.md, and the list has no other', () => {
  const files = SOURCES.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true }).map((name) => join(folder, String(name))),
  ).filter((name) => /\.ts$/.test(name) && !/\.test\.ts$|postgres.log.log\.ts$/.test(name));
  const sources = files.map(read).join('\n');
  const call = /\blog\.(debug|info|warn|error)\(/g;
  const line = /\blog\.(debug|info|warn|error)\(\s*\{[^}]*\},\s*'((?:[^'\\]|\\.)*)'/g;
  const lines = [...sources.matchAll(line)];
  // A call with a sentence that is put together at run time, or with none, would not be found.
  expect(lines).toHaveLength([...sources.matchAll(call)].length);
  const logged = new Set(lines.map(([, level, sentence]) => `${level}: ${sentence}`));
  const [, section] = read('docs/metrics.md').split('\n## Logs\n');
  const listed = [...(section as string).matchAll(/^\| (\w+) \| `([^`]+)` \|/gm)].map(
    ([, level, sentence]) => `${level}: ${sentence}`,
  );
  expect(listed.toSorted()).toEqual([...logged].toSorted());
});
