/** Workers for the length of one test: started here, stopped after it whatever happened. */
import { afterEach } from 'vitest';
import type {
  Holdfast,
  Worker,
  WorkerEvent,
  WorkerOptions,
} from '../../packages/holdfast/src/index.js';

export interface Started {
  readonly worker: Worker;
  readonly events: WorkerEvent[];
  /** Settles when run() does. */
  readonly running: Promise<void>;
  stop(graceMs?: number): Promise<void>;
}

export function testWorkers() {
  const open: Started[] = [];
  afterEach(async () => {
    await Promise.all(open.splice(0).map((one) => one.stop(0)));
  });
  return function start(
    hf: Holdfast,
    handlers: (worker: Worker) => Worker,
    options: WorkerOptions = {},
  ): Started {
    const events: WorkerEvent[] = [];
    const worker = hf.worker({
      handleSignals: false,
      poll: '50ms',
      onEvent: (event) => void events.push(event),
      ...options,
    });
    const running = handlers(worker).run();
    // Whoever waits for it hears of a failure; until somebody does, it is no unhandled one.
    running.catch(() => undefined);
    const started: Started = {
      worker,
      events,
      running,
      async stop(graceMs = 10_000) {
        await worker.stop({ grace: graceMs });
        await running;
      },
    };
    open.push(started);
    return started;
  };
}

/** A promise to be settled from outside: how a test holds a handler, and hears from it. */
export function gate<Value = void>() {
  let open!: (value: Value) => void;
  const opened = new Promise<Value>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}
