/**
 * The clock of a simulation: one list of events, ordered by virtual time, and the globals by which code asks for
 * time, timers and chance.
 *
 * Every event belongs to an owner: a simulated process. While an event is handled, all code that runs is that
 * owner's, because the microtasks are drained before the next event; so a timer that it sets is the owner's too.
 * An owner can be frozen (its events wait) or killed (they never come). `install` replaces the globals of this
 * process as a whole, so also a timer that forgets `Time` is simulated. Postgres, which runs in this process, reads
 * `Date.now` as well: its now() follows the virtual clock.
 */

/** Chance that repeats itself (mulberry32). */
export function chance(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

export class Owner {
  readonly name: string;
  readonly random: () => number;
  frozenUntil = 0;
  dead = false;

  constructor(name: string, seed: number) {
    this.name = name;
    this.random = chance(seed);
  }
}

interface Event {
  at: number;
  readonly nth: number;
  readonly owner: Owner;
  readonly run: () => void | Promise<void>;
  cancelled: boolean;
}

const real = { setImmediate: globalThis.setImmediate, Date: globalThis.Date };
const pid = Object.getOwnPropertyDescriptor(process, 'pid') as PropertyDescriptor;
/** Virtual time begins here: later than any real one, so that the server has been up for long. */
export const EPOCH = real.Date.UTC(2040, 0, 1);

export class Clock {
  now = 0;
  /** Whose code runs. */
  current: Owner | null = null;
  readonly #events: Event[] = [];
  #count = 0;

  /** In the time of the database. */
  get date(): number {
    return EPOCH + this.now;
  }

  at(owner: Owner, ms: number, run: Event['run']): Event {
    const at = this.now + Math.max(0, ms);
    const event = { at, nth: ++this.#count, owner, run, cancelled: false };
    push(this.#events, event);
    return event;
  }

  /** When the next event is; never, if there is none. */
  get nextAt(): number {
    return this.#events[0]?.at ?? Number.POSITIVE_INFINITY;
  }

  /** Runs all that happens until then. */
  async runUntil(ms: number): Promise<void> {
    while (this.nextAt <= ms) await this.step();
    this.now = Math.max(this.now, ms);
  }

  /** Runs the next event. False: there is none. */
  async step(): Promise<boolean> {
    const event = pop(this.#events);
    if (!event) return false;
    if (event.cancelled || event.owner.dead) return true;
    if (event.owner.frozenUntil > event.at) {
      event.at = event.owner.frozenUntil;
      push(this.#events, event);
      return true;
    }
    this.now = Math.max(this.now, event.at);
    this.current = event.owner;
    const done = event.run();
    if (done) await done;
    await new Promise((resolve) => real.setImmediate(resolve));
    this.current = null;
    return true;
  }

  /** Replaces the globals; returns how to put them back. */
  install(): () => void {
    const saved = saveGlobals();
    const nobody = new Owner('nobody', 1);
    nobody.dead = true;
    const timer = (
      run: (...args: unknown[]) => void,
      ms: number,
      args: unknown[],
      every: boolean,
    ) => {
      // What Postgres and the test runner ask for is not part of the simulation.
      const owner = this.current ?? nobody;
      let event: Event;
      const plan = () => {
        event = this.at(owner, ms, () => {
          if (every) plan();
          run(...args);
        });
      };
      plan();
      const handle = {
        cancel: () => {
          event.cancelled = true;
        },
        unref: () => handle,
        ref: () => handle,
        hasRef: () => true,
        [Symbol.toPrimitive]: () => 0,
      };
      return handle;
    };
    const least = (ms?: number) => Math.max(1, ms ?? 1);
    const cancel = (handle: { cancel?: () => void } | undefined) => handle?.cancel?.();
    Object.assign(globalThis, {
      setTimeout: (run: () => void, ms?: number, ...args: unknown[]) =>
        timer(run, least(ms), args, false),
      setInterval: (run: () => void, ms?: number, ...args: unknown[]) =>
        timer(run, least(ms), args, true),
      setImmediate: (run: () => void, ...args: unknown[]) => timer(run, 0, args, false),
      clearTimeout: cancel,
      clearInterval: cancel,
      clearImmediate: cancel,
    });
    // Whole for code, as everywhere. Postgres, which runs while nobody's code does, has parts of a millisecond.
    real.Date.now = () => (this.current ? Math.floor(this.date) : this.date);
    performance.now = () => this.now;
    // A part of the worker's id, and so of its place on the ring.
    Object.defineProperty(process, 'pid', { ...pid, value: 1 });
    process.hrtime.bigint = () => BigInt(Math.round(this.now * 1e6));
    Math.random = () => (this.current ?? nobody).random();
    return saved;
  }
}

function saveGlobals(): () => void {
  const { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate } =
    globalThis;
  const { random } = Math;
  const dateNow = Date.now;
  const { now } = performance;
  const { bigint } = process.hrtime;
  return () => {
    Object.assign(globalThis, {
      ...{ setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate },
    });
    Object.defineProperty(process, 'pid', pid);
    Math.random = random;
    Date.now = dateNow;
    performance.now = now;
    process.hrtime.bigint = bigint;
  };
}

const earlier = (a: Event, b: Event) => a.at < b.at || (a.at === b.at && a.nth < b.nth);

/** A binary heap. */
function push(heap: Event[], event: Event): void {
  heap.push(event);
  for (let at = heap.length - 1; at > 0; ) {
    const up = (at - 1) >> 1;
    if (!earlier(event, heap[up] as Event)) break;
    heap[at] = heap[up] as Event;
    heap[up] = event;
    at = up;
  }
}

function pop(heap: Event[]): Event | undefined {
  const first = heap[0];
  const last = heap.pop();
  if (!first || !last || heap.length === 0) return first;
  let at = 0;
  for (;;) {
    let down = 2 * at + 1;
    if (down >= heap.length) break;
    if (down + 1 < heap.length && earlier(heap[down + 1] as Event, heap[down] as Event)) down++;
    if (!earlier(heap[down] as Event, last)) break;
    heap[at] = heap[down] as Event;
    at = down;
  }
  heap[at] = last;
  return first;
}
