// Runs the programs, on the Node that the peers need: see ../first-tasks.mjs.
import { spawn, spawnSync } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { startEmbedded } from '../../packages/embedded/dist/index.js';
import { countLines, programOf, SYSTEMS, TASKS, withTable } from './table.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const LIMIT_MS = 150_000;

/** A folder that sees Holdfast and its peers as a user's project does: by their names. */
function project() {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-first-tasks-'));
  const modules = join(folder, 'node_modules');
  mkdirSync(modules);
  const peers = join(ROOT, 'bench/node_modules');
  for (const name of readdirSync(peers))
    if (!name.startsWith('.')) symlinkSync(join(peers, name), join(modules, name));
  symlinkSync(join(ROOT, 'packages/holdfast'), join(modules, 'holdfast'));
  symlinkSync(join(ROOT, 'node_modules/@holdfast'), join(modules, '@holdfast'));
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  for (const system of SYSTEMS)
    cpSync(join(ROOT, 'bench/first-tasks', system), join(folder, system), { recursive: true });
  return folder;
}

/** What the compiler has against a program; empty: nothing. */
function typeErrors(folder, program) {
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
  const options = ['--noEmit', '--strict', '--skipLibCheck', '--target', 'es2023'];
  const modules = ['--module', 'nodenext', '--types', 'node', '--pretty', 'false'];
  const args = [tsc, ...options, ...modules, program];
  return spawnSync(process.execPath, args, { cwd: folder, encoding: 'utf8' }).stdout;
}

function run(folder, program, url) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [program], {
      cwd: folder,
      env: { PATH: process.env.PATH, DATABASE_URL: url },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const timer = setTimeout(() => child.kill('SIGKILL'), LIMIT_MS);
    let [out, err] = ['', ''];
    child.stdout.on('data', (chunk) => {
      out += chunk;
    });
    child.stderr.on('data', (chunk) => {
      err += chunk;
    });
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      const said = out.split('\n').flatMap((line) => (line.startsWith('> ') ? line.slice(2) : []));
      resolve({ code, signal, said, all: `${out}${err}` });
    });
  });
}

/** A sentence that says what is wrong, or null. */
async function problemOf(folder, program, task, url) {
  const errors = program.endsWith('.ts') ? typeErrors(folder, program) : '';
  if (errors) return `does not compile:\n${errors}`;
  const { code, signal, said, all } = await run(folder, program, url);
  if (said.join('\n') !== task.prints.join('\n'))
    return `printed ${JSON.stringify(said)} and not ${JSON.stringify(task.prints)}:\n${all}`;
  if (code !== 0 && signal !== (task.mayEndBy ?? null)) return `ended with ${signal ?? code}`;
  return null;
}

const wanted = process.argv.slice(2);
const unknown = wanted.find((name) => !TASKS.some((task) => task.name === name));
if (unknown) {
  console.error(
    `There is no task "${unknown}"; nothing was run. Tasks: ${TASKS.map(({ name }) => name).join(', ')}`,
  );
  process.exit(2);
}
const server = await startEmbedded({ throwaway: true, onProgress: (text) => console.error(text) });
const folder = project();
const admin = new pg.Client({ connectionString: server.url });
await admin.connect();
let failed = 0;
let databases = 0;
for (const task of TASKS.filter(({ name }) => wanted.length === 0 || wanted.includes(name))) {
  for (const system of SYSTEMS) {
    const program = programOf(system, task);
    if (!program) continue;
    const name = `first_task_${++databases}`;
    await admin.query(`CREATE DATABASE ${name}`);
    const url = new URL(server.url);
    url.pathname = `/${name}`;
    const began = Date.now();
    const problem = await problemOf(folder, program, task, url.href);
    if (problem) failed++;
    const seconds = ((Date.now() - began) / 1000).toFixed(1);
    console.log(`${program}: ${problem ?? `${countLines(program)} lines, ran in ${seconds} s`}`);
    await admin.query(`DROP DATABASE ${name} WITH (FORCE)`);
  }
}
await admin.end();
await server.stop();
rmSync(folder, { recursive: true, force: true });
if (failed === 0 && wanted.length === 0) {
  const page = join(ROOT, 'docs/peers.md');
  writeFileSync(page, withTable(readFileSync(page, 'utf8')));
  console.log('docs/peers.md has the table.');
}
process.exit(failed === 0 ? 0 : 1);
