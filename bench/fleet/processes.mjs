// Worker processes for the measurements: started, heard, killed, and gone at the end.
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const SCRIPT = fileURLToPath(new URL('./worker.mjs', import.meta.url));
const running = new Set();

/** It also works on `queues`, beside the first one. */
export function startWorker(url, options, hear = () => {}, queues = []) {
  const child = fork(SCRIPT, [JSON.stringify({ url, options, queues })], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  running.add(child);
  child.on('message', (message) => hear(message, child));
  child.on('exit', () => running.delete(child));
  return child;
}

export function stopWorkers() {
  return Promise.all(
    [...running].map((child) => {
      const gone = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGKILL');
      return gone;
    }),
  );
}

/** A server that has only just started may declare nobody dead; here it has been up for long. */
export const serverIsOld = (admin) =>
  until('the server to be older than ten seconds', async () => {
    const { rows } = await admin.query(
      "SELECT pg_postmaster_start_time() < now() - interval '11 seconds' AS old",
    );
    return rows[0].old;
  });

/** Asks until the answer is true; a measurement that waits for a minute has failed. */
export async function until(what, ask, limitMs = 60_000) {
  const from = performance.now();
  while (!(await ask())) {
    if (performance.now() - from > limitMs) throw new Error(`waited in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
