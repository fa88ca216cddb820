// One build at a time in a checkout: builds empty the folders that they write. Whoever comes second waits, and says for whom. The lock
// is a file with the process that holds it; that of a process that is gone keeps nobody waiting.
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

const EVERY_MS = 200;
/** Between its making and its first byte a lock has no holder that can be read. */
const EMPTY_MS = 5_000;

/** When a process started, where the system says so: numbers of processes are given again. */
function startOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return null;
  }
}

function lives({ pid, start }) {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if (error.code === 'ESRCH') return false;
  }
  return startOf(pid) === start;
}

/** The text of the lock, and who holds it; null: there is none. */
function read(path) {
  try {
    const text = readFileSync(path, 'utf8');
    if (text !== '') return { text, holder: JSON.parse(text) };
    return { text, holder: Date.now() - statSync(path).mtimeMs < EMPTY_MS ? { pid: 0 } : null };
  } catch (error) {
    if (error.code === 'ENOENT') return null;
    throw error;
  }
}

function take(path, text) {
  try {
    writeFileSync(path, text, { flag: 'wx' });
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  }
}

/** Moves it away first: of two that find a dead holder, only one may go on with the file that it saw. */
function remove(path, seen) {
  const aside = `${path}.${process.pid}`;
  try {
    renameSync(path, aside);
  } catch {
    return;
  }
  const text = readFileSync(aside, 'utf8');
  rmSync(aside);
  if (text !== seen) take(path, text);
}

/** Returns what gives it back, which the end of the process does, too. `say` is told once whom it waits for. */
export function takeLock(path, say) {
  mkdirSync(dirname(path), { recursive: true });
  const mine = JSON.stringify({ pid: process.pid, start: startOf(process.pid) });
  let told = null;
  while (!take(path, mine)) {
    const seen = read(path);
    if (!seen) continue;
    const { text, holder } = seen;
    if (!holder || (holder.pid > 0 && !lives(holder))) {
      remove(path, text);
      continue;
    }
    if (holder.pid > 0 && told !== text) {
      told = text;
      say(`process ${holder.pid} installs or builds in this checkout; waiting for its end …`);
    }
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, EVERY_MS);
  }
  const release = () => {
    if (read(path)?.text === mine) rmSync(path, { force: true });
  };
  process.once('exit', release);
  return release;
}
