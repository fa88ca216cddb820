// The twelve tasks: what each program prints, and the table of how many lines it takes.
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL('.', import.meta.url));

export const SYSTEMS = ['holdfast', 'pg-boss', 'graphile-worker'];

/** `none`: what stands in the table where a system has no program. */
export const TASKS = [
  {
    name: 'transaction',
    says: 'enqueue in your transaction; one that is rolled back leaves no job',
    prints: ['receipt for order 2'],
  },
  {
    name: 'typed',
    says: 'a handler whose payload is typed, in TypeScript',
    prints: ['receipt for order 1'],
  },
  {
    name: 'retry',
    says: 'three attempts, with growing delays',
    prints: ['attempt 1', 'attempt 2', 'attempt 3'],
  },
  { name: 'delay', says: 'run in two seconds', prints: ['after its delay'] },
  { name: 'cron', says: 'run every minute', prints: ['tick'] },
  {
    name: 'unique',
    says: 'the same work enqueued twice is one job',
    prints: ['receipt for order 1', 'receipt for order 2'],
  },
  { name: 'priority', says: 'urgent jobs first', prints: ['urgent', 'ordinary'] },
  {
    name: 'per-key',
    says: 'at most two jobs of a key at once',
    prints: ['2 at once'],
    none: { 'graphile-worker': 'one at once only' },
  },
  {
    name: 'rate-limit',
    says: 'at most so many jobs a second, in the whole fleet, none dropped',
    prints: ['9 jobs, 4 a second'],
    none: { 'pg-boss': 'none', 'graphile-worker': 'none' },
  },
  {
    name: 'shutdown',
    says: 'SIGTERM lets the running job finish',
    prints: ['begun', 'finished'],
    // One that drains may end by the signal that it was sent.
    mayEndBy: 'SIGTERM',
  },
  { name: 'unit-test', says: 'run one job in a test', prints: ['completed 1'] },
  {
    name: 'stuck',
    says: 'the job of a killed process runs again within a minute',
    prints: ['it ran again'],
  },
];

/** The program of a task, or null. */
export function programOf(system, { name }) {
  return [`${system}/${name}.mjs`, `${system}/${name}.ts`].find((path) =>
    existsSync(`${folder}${path}`),
  );
}

/** Lines of code: neither blank nor a comment. */
export function countLines(path) {
  return readFileSync(`${folder}${path}`, 'utf8')
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.trim().startsWith('//')).length;
}

export function table() {
  const cell = (task, system) => {
    const program = programOf(system, task);
    return program ? String(countLines(program)) : (task.none?.[system] ?? 'no program');
  };
  return [
    `| | ${SYSTEMS.join(' | ')} |`,
    `|---${'|---:'.repeat(SYSTEMS.length)}|`,
    ...TASKS.map(
      (task) => `| ${task.says} | ${SYSTEMS.map((system) => cell(task, system)).join(' | ')} |`,
    ),
  ].join('\n');
}

const MARKS = /<!-- first-tasks:(?:begin|end) -->/;

/** A page with the table between its marks. */
export function withTable(page) {
  const [before, , after] = page.split(MARKS);
  if (after === undefined) throw new Error('The page has no marks first-tasks:begin and :end.');
  return `${before}<!-- first-tasks:begin -->\n${table()}\n<!-- first-tasks:end -->${after}`;
}
