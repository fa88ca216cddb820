// The processes of a run: producers, workers and the register. Each sits in a slot with a line of its own to the
// database. A worker that ends is started again; every start and every end is in the history, with its cause
// if the nemesis was the cause.
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { wrongClock } from './clock.mjs';
import { openLine } from './proxy.mjs';

const ACTORS = fileURLToPath(new URL('./actors/', import.meta.url));
const RESTART_MS = 400;
/** A heap bomb goes off within a second, and takes no memory of others. */
const HEAP_MB = 96;

class Slot {
  child = null;
  /** It has started, and not ended since. */
  up = false;
  started = 0;
  /** It is left alone when it ends. */
  leaving = false;
  timer = null;

  constructor(fleet, kind, name, line, config) {
    Object.assign(this, { fleet, kind, name, line, config });
  }

  /** `overrides` are for this start only. */
  start(overrides = {}) {
    const { clockMs, ...config } = { ...this.config, ...overrides };
    const name = `${this.name}.${++this.started}`;
    const { folder, product: built, registerPort, shapes } = this.fleet.world;
    // The code that it runs: of this build, or of an older release.
    const product = config.product ?? built;
    const own = { ...config, product, name, folder, registerPort, url: this.line.url };
    if (shapes) own.shapes = shapes.config;
    const clock = wrongClock(clockMs);
    const child = fork(`${ACTORS}${this.kind}.mjs`, [JSON.stringify(own)], {
      execArgv: [`--max-old-space-size=${HEAP_MB}`, ...clock.execArgv],
      env: { ...process.env, ...clock.env },
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      cwd: folder,
    });
    this.child = child;
    this.up = false;
    this.ready = new Promise((resolve) => {
      child.on('message', ({ kind }) => {
        if (kind !== 'started') return;
        if (this.child === child) this.up = true;
        resolve();
      });
      child.once('exit', resolve);
    });
    let stderr = '';
    child.stderr.on('data', (data) => {
      stderr = (stderr + data).slice(-2_000);
    });
    this.fleet.history.record('process', 'invoke', { child: child.pid, name, clockMs });
    child.once('exit', (code, signal) => {
      this.fleet.history.record('process', 'note', {
        child: child.pid,
        name,
        code,
        signal,
        stderr,
      });
      if (this.child === child) Object.assign(this, { child: null, up: false });
      if (this.leaving || this.fleet.stopping) return;
      this.timer = setTimeout(() => this.start(), RESTART_MS);
    });
    return this.ready;
  }

  get pid() {
    return this.child?.pid;
  }

  get runs() {
    return this.child !== null;
  }

  /** A signal of the nemesis: what it ends is expected to end. */
  signal(name) {
    if (!this.child) return false;
    this.fleet.history.record('signal', 'note', {
      child: this.child.pid,
      name: this.name,
      signal: name,
    });
    return this.child.kill(name);
  }

  /** `lasting`: what the command leaves behind in the config, for the next start. */
  tell(command, lasting = {}) {
    this.config = { ...this.config, ...lasting };
    if (this.child?.connected) this.child.send(command, () => {});
  }

  async ended() {
    const { child } = this;
    if (child) await new Promise((resolve) => child.once('exit', resolve));
  }

  /** Leaves for good. */
  async leave(signal = 'SIGTERM') {
    this.leaving = true;
    clearTimeout(this.timer);
    if (!this.child) return;
    const ended = this.ended();
    this.signal(signal);
    // At the end of a run all is healed: who does not end then hangs, and its kill is not one that was expected.
    const late = setTimeout(
      () => (this.fleet.stopping ? this.child?.kill('SIGKILL') : this.signal('SIGKILL')),
      this.fleet.stopping ? 30_000 : 15_000,
    );
    await ended;
    clearTimeout(late);
  }
}

export class Fleet {
  slots = [];
  stopping = false;

  constructor(world, history) {
    this.world = world;
    this.history = history;
    this.killAll = () => {
      for (const { child } of this.slots) child?.kill('SIGKILL');
      this.register?.kill('SIGKILL');
    };
    process.on('exit', this.killAll);
  }

  async startRegister() {
    const { folder } = this.world;
    this.register = fork(`${ACTORS}register.mjs`, [JSON.stringify({ folder })]);
    await new Promise((resolve) =>
      this.register.once('message', ({ port }) => {
        this.world.registerPort = port;
        resolve();
      }),
    );
  }

  async add(kind, name, config) {
    const line = await openLine(this.world.entryUrl());
    const slot = new Slot(this, kind, name, line, config);
    this.slots.push(slot);
    return slot;
  }

  async remove(slot, signal) {
    await slot.leave(signal);
    await slot.line.stop();
    this.slots.splice(this.slots.indexOf(slot), 1);
  }

  get workers() {
    return this.slots.filter(({ kind, leaving }) => kind === 'worker' && !leaving);
  }

  get producers() {
    return this.slots.filter(({ kind }) => kind === 'producer');
  }

  get lines() {
    return this.slots.map(({ line }) => line);
  }

  async stop() {
    if (this.stopping) return;
    this.stopping = true;
    await Promise.all(this.slots.map((slot) => slot.leave()));
    await Promise.all(this.lines.map((line) => line.stop()));
    if (this.register?.connected) this.register.disconnect();
    process.off('exit', this.killAll);
  }
}
