/** The table of first tasks in docs/peers.md is that of the programs, which `node bench/first-tasks.mjs` runs. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { programOf, SYSTEMS, TASKS, table, withTable } from '../../bench/first-tasks/table.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

test('docs/peers.md has the line counts of the programs as they are', () => {
  const page = readFileSync(join(ROOT, 'docs/peers.md'), 'utf8');
  expect(page).toBe(withTable(page));
  expect(TASKS).toHaveLength(12);
});

test('every program belongs to a task, and every gap in the table is explained', () => {
  for (const system of SYSTEMS) {
    const programs = readdirSync(join(ROOT, 'bench/first-tasks', system));
    const known = TASKS.map((task) => programOf(system, task)).filter(Boolean);
    expect(known.toSorted()).toEqual(programs.map((name) => `${system}/${name}`).toSorted());
  }
  expect(table()).not.toContain('no program');
  const both = TASKS.filter((task) =>
    SYSTEMS.some((system) => task.none?.[system] && programOf(system, task)),
  );
  expect(both).toEqual([]);
});
