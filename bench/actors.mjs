// The processes that work and produce, as the harness sees them: started, told, heard, and gone at
// the end.
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const SCRIPT = fileURLToPath(new URL('./actor.mjs', import.meta.url));
const running = new Set();

export class Actor {
  #what;
  #child = null;
  #asked = new Map();
  #next = 0;
  progress = null;

  constructor(what) {
    this.#what = what;
  }

  get pid() {
    return this.#child.pid;
  }

  async start() {
    const child = fork(SCRIPT, [JSON.stringify(this.#what)], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    this.#child = child;
    this.forget();
    running.add(this);
    await new Promise((resolve, reject) => {
      child.on('message', (message) => {
        if (message.kind === 'ready') resolve();
        else if (message.kind === 'progress') this.#learn(message);
        else this.#answer(message);
      });
      child.once('exit', (code, signal) => {
        running.delete(this);
        const gone = new Error(`the process of ${this.#what.name} ended (${signal ?? code})`);
        reject(gone);
        for (const { reject: refuse } of this.#asked.values()) refuse(gone);
        this.#asked.clear();
      });
    });
    return this;
  }

  /** Counts begin again with the next `work`. */
  forget() {
    this.progress = {
      count: 0,
      first: Infinity,
      last: 0,
      marks: [],
      latencies: [],
      ids: [],
      rss: 0,
    };
  }

  ask(command, order = {}) {
    const id = ++this.#next;
    return new Promise((resolve, reject) => {
      this.#asked.set(id, { resolve, reject });
      this.#child.send({ id, command, ...order });
    });
  }

  async work(order) {
    this.forget();
    await this.ask('work', order);
  }

  /** Stops its workers; one that does not stop within the limit is killed and started anew. */
  async stopWork(limitMs = 3_000) {
    const late = Symbol('late');
    let timer;
    const limit = new Promise((resolve) => {
      timer = setTimeout(() => resolve(late), limitMs);
    });
    const stopped = this.ask('stop').catch(() => late);
    const result = await Promise.race([stopped, limit]);
    clearTimeout(timer);
    if (result !== late) return;
    await this.kill();
    await this.start();
  }

  kill() {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return Promise.resolve();
    const gone = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.kill('SIGKILL');
    return gone;
  }

  #learn({ count, first, last, marks, latencies, ids, rss }) {
    const { progress } = this;
    progress.count = count;
    progress.first = first;
    progress.last = last;
    progress.rss = Math.max(progress.rss, rss);
    progress.marks.push(...marks);
    progress.latencies.push(...latencies);
    progress.ids.push(...ids);
  }

  #answer({ id, result, error }) {
    const asked = this.#asked.get(id);
    this.#asked.delete(id);
    if (error) asked?.reject(new Error(error));
    else asked?.resolve(result);
  }
}

/** `entry` is a system in a configuration; see `entries.mjs`. */
export const startActor = (entry) =>
  new Actor({
    name: entry.system.name,
    configuration: entry.configuration,
    url: entry.url,
  }).start();

export const startActors = (entry, count) =>
  Promise.all(Array.from({ length: count }, () => startActor(entry)));

export const killActors = (actors = [...running]) =>
  Promise.all([...actors].map((actor) => actor.kill()));
