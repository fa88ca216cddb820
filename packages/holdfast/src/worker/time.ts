/**
 * Time, timers and chance, as the loops of a worker see them. They come in as a dependency, so that a test can
 * run a fleet on a clock of its own and get the same run every time.
 */
import { CHECK_MS, jittered, PACE_MS, SOON_MS } from '../claim/pace.js';

export { CHECK_MS, jittered, PACE_MS, SOON_MS };

/** Without an answer for so long, a connection may be half open. */
export const ANSWER_MS = 5 * CHECK_MS;

export interface Timer {
  cancel(): void;
}

export interface Time {
  /** Milliseconds of a clock that only goes forward. */
  now(): number;
  /** `background`: it does not keep the process alive. */
  after(ms: number, run: () => void, background?: boolean): Timer;
  /** When this tick of the event loop is over. */
  soon(run: () => void): void;
  /** From 0 to 1. */
  random(): number;
}

export const systemTime: Time = {
  now: () => performance.now(),
  after(ms, run, background = false) {
    const timer = setTimeout(run, ms);
    if (background) timer.unref();
    return { cancel: () => clearTimeout(timer) };
  },
  soon: (run) => void setImmediate(run),
  random: () => Math.random(),
};

/** Does its work after about `everyMs`, again and again. Returns how to stop. */
export function rounds(
  time: Time,
  everyMs: number,
  work: () => Promise<void>,
  firstMs = jittered(everyMs, time),
): () => void {
  let timer: Timer | null = null;
  const plan = (inMs: number) => {
    timer = time.after(inMs, async () => {
      await work();
      if (timer) plan(jittered(everyMs, time));
    });
  };
  plan(firstMs);
  return () => {
    timer?.cancel();
    timer = null;
  };
}

/** A wait that somebody may end early. One at a time. */
export class Wait {
  #end: ((early: boolean) => void) | null = null;

  /** True: it was ended. */
  atMost(ms: number, time: Pick<Time, 'after'> = systemTime): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = time.after(ms, () => this.#end?.(false));
      this.#end = (early) => {
        timer.cancel();
        this.#end = null;
        resolve(early);
      };
    });
  }

  end(): void {
    this.#end?.(true);
  }
}
