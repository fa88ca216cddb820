/**
 * The code that the documentation prints: TypeScript compiles against the built package, and SQL runs
 * on a database as a migration leaves it, with jobs in every state.
 */
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { complete } from '../../packages/holdfast/src/settle/complete.js';
import { deadLetter } from '../../packages/holdfast/src/settle/dead-letter.js';
import { fail } from '../../packages/holdfast/src/settle/fail.js';
import { claimAs, heldOf } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import {
  asModule,
  type Block,
  documentationBlocks,
  exampleBlocks,
  PRELUDE,
} from '../support/doc-blocks.js';
import { FRAMEWORKS, JOBS } from '../support/doc-frameworks.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const blocks = documentationBlocks(ROOT);
const place = ({ page, line }: Block) => `${page}:${line}`;
const db = testDatabase();

/** Tested here, in docs.test.ts (the quick start), by `npm run test:protocol` (Python), or no code to be tested. */
const KINDS = /^(ts|sql run|sh|text|mermaid|python|)$/;

test('every code block is of a kind that is tested, or is marked as text', () => {
  const unknown = blocks.filter(
    ({ page, info, section }) =>
      !KINDS.test(info) && !(info === 'js' && page === 'README.md' && section === 'Quick start'),
  );
  expect(unknown.map((block) => `${place(block)} ${block.info}`)).toEqual([]);
});

const COMPILER_OPTIONS = {
  target: 'ES2023',
  lib: ['ES2023', 'ESNext.Disposable'],
  module: 'NodeNext',
  types: ['node'],
  strict: true,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  // As Nest needs it.
  experimentalDecorators: true,
  emitDecoratorMetadata: true,
  skipLibCheck: true,
  noEmit: true,
};

/** A folder that sees the package as a user's project does, by its name and its exports. */
function project(): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-docs-'));
  const modules = join(folder, 'node_modules');
  mkdirSync(modules);
  for (const name of readdirSync(join(ROOT, 'node_modules'))) {
    if (!name.startsWith('.')) symlinkSync(join(ROOT, 'node_modules', name), join(modules, name));
  }
  const config = { compilerOptions: COMPILER_OPTIONS, include: ['*.ts'] };
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config));
  writeFileSync(join(folder, 'prelude.ts'), PRELUDE);
  writeFileSync(join(folder, 'jobs.ts'), JOBS);
  writeFileSync(join(folder, 'frameworks.d.ts'), FRAMEWORKS);
  const client = join(ROOT, 'test/support/prisma/client');
  cpSync(client, join(folder, 'generated/prisma'), { recursive: true });
  return folder;
}

/** The errors of all blocks, as `page:line message`. */
function typeErrors(all: readonly Block[]): string[] {
  const folder = project();
  const byFile = new Map(all.map((block, index) => [`block${index}.ts`, block]));
  try {
    for (const [file, block] of byFile) writeFileSync(join(folder, file), asModule(block));
    const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
    const args = [tsc, '-p', folder, '--pretty', 'false'];
    const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: folder, encoding: 'utf8' });
    // A message goes on in indented lines; they belong to the line above.
    return `${stdout}${stderr}`
      .split(/\n(?! )/)
      .filter((line) => line !== '')
      .map((line) =>
        line.replace(/^(block\d+\.ts)\((\d+),\d+\): error /, (_, file: string, at: string) => {
          return `${byFile.get(file)?.page}:${at} `;
        }),
      );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

test('the TypeScript compiles, and the check finds what does not', () => {
  const code = "await hf.enqueue(sendReceipt, { orderId: 9182 });\nhf.enqueue(sendReceipt, 'no');";
  const wrong: Block = { page: 'a wrong page', line: 10, info: 'ts', section: '', code };
  const examples = exampleBlocks(ROOT);
  expect(examples.length).toBeGreaterThan(40);
  const all = [...blocks.filter(({ info }) => info === 'ts'), ...examples, wrong];
  const errors = typeErrors(all);
  expect(errors.filter((error) => !error.startsWith('a wrong page'))).toEqual([]);
  expect(errors).toEqual([expect.stringMatching(/^a wrong page:12 TS2345: .*'string'/)]);
});

/** The job that the pages name by its id has failed once and runs again; others are in every state. */
async function seed(): Promise<void> {
  const receipt = job('send_receipt');
  const types = ['send_receipt'];
  const add = async (key: string) => {
    const { id } = await db.hf.enqueue(receipt, { orderId: 9182 }, { partitionKey: key });
    const rows = await claimAs(db.engine, 'worker-1', { types });
    return heldOf(rows.find((row) => row.id === id)!);
  };
  const error = { error: 'Error: no such mailbox', summary: 'Error: no such mailbox' };
  const named = await add('order:9182');
  const id = '0199a1c2-7d3e-7000-8000-000000009182';
  await db.rows('UPDATE holdfast.inbox SET id = $2 WHERE id = $1', [named.id, id]);
  await fail(db.engine, INBOX, 'worker-1', [{ ...named, id, delayMs: 0, ...error }]);
  await complete(db.engine, INBOX, 'worker-1', [await add('order:9183')]);
  await deadLetter(db.engine, INBOX, 'worker-1', [{ ...(await add('order:9184')), ...error }]);
  const stuck = await add('order:9185');
  await db.rows(
    `UPDATE holdfast.inbox SET lease_expires_at = now() - interval '1 minute' WHERE id = $1`,
    [stuck.id],
  );
  await db.rows(`INSERT INTO holdfast.workers (id) VALUES ('worker-1')`);
  await db.hf.enqueue(receipt, { orderId: 9186 }, { partitionKey: 'order:9186' });
}

test('the SQL runs as printed, and every support query finds what it looks for', async () => {
  await seed();
  const client = new pg.Client({
    connectionString: db.url,
    options: '-c search_path=holdfast,public',
  });
  await client.connect();
  const failures: string[] = [];
  for (const block of blocks.filter(({ info }) => info === 'sql run')) {
    try {
      const result: pg.QueryResult | pg.QueryResult[] = await client.query(block.code);
      const last = Array.isArray(result) ? result.at(-1) : result;
      if (block.section === 'Support queries' && !last?.rowCount) {
        failures.push(`${place(block)} found nothing`);
      }
    } catch (error) {
      failures.push(`${place(block)} ${(error as Error).message}`);
    }
  }
  await client.end();
  expect(failures).toEqual([]);
});
