// The processes that run workflows, as the measurement sees them.
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const SCRIPT = fileURLToPath(new URL('./worker.mjs', import.meta.url));

export function startProcess(system, url, options = {}) {
  const what = JSON.stringify({ name: system.name, url, options });
  const child = fork(SCRIPT, [what], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  /** Those that wait for a message of a kind, and messages for which nobody waits yet. */
  const heard = [];
  const waiting = [];
  const gone = new Promise((resolve) => child.once('exit', resolve));
  const listeners = new Set();
  child.on('message', (message) => {
    for (const listener of listeners) listener(message);
    const at = waiting.findIndex(({ kind }) => kind === message.kind);
    if (at >= 0) waiting.splice(at, 1)[0].resolve(message);
    else if (listeners.size === 0) heard.push(message);
  });
  gone.then((code) => {
    for (const { reject } of waiting)
      reject(new Error(`the process of ${system.name} ended (${code ?? 'by a signal'})`));
  });
  const self = {
    pid: child.pid,
    /** The next message of this kind. */
    next(kind, limitMs = 120_000) {
      const at = heard.findIndex((message) => message.kind === kind);
      if (at >= 0) return Promise.resolve(heard.splice(at, 1)[0]);
      return new Promise((resolve, reject) => {
        const timer = setTimeout(
          () => reject(new Error(`${system.name} told of no "${kind}" within ${limitMs} ms`)),
          limitMs,
        );
        waiting.push({
          kind,
          reject,
          resolve: (message) => {
            clearTimeout(timer);
            resolve(message);
          },
        });
      });
    },
    listen(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    send: (message) => child.send(message),
    kill() {
      child.kill('SIGKILL');
      return gone;
    },
  };
  return self.next('up').then(() => self);
}

/** The messages of a kind of several processes, until there are so many. */
export function collect(processes, kind, count, limitMs = 120_000) {
  const seen = [];
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      for (const stop of stops) stop();
    };
    const timer = setTimeout(() => {
      end();
      reject(new Error(`${seen.length} of ${count} "${kind}" within ${limitMs} ms`));
    }, limitMs);
    const stops = processes.map((one) =>
      one.listen((message) => {
        if (message.kind !== kind) return;
        seen.push(message);
        if (seen.length < count) return;
        end();
        resolve(seen);
      }),
    );
  });
}
