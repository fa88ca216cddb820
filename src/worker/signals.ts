/**
 * Signals: how a drain is asked for, and how a process is ended that does not end by itself.
 *
 * SIGTERM and SIGINT: the first asks for a drain, the second exits at once with 128 plus the signal. What
 * comes with the first is not a second one: supervisors signal a process and then its whole group.
 * Listeners run on the event loop, so a handler that spins keeps them from being heard; the keeper's
 * thread hears the same signals on a loop of its own. A process can be ended from that thread only by
 * force: the kernel does it, and nothing that the main thread does can stand in the way.
 */
import { writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { setFlagsFromString } from 'node:v8';

const NUMBERS = { SIGINT: 2, SIGTERM: 15 } as const;
/** Signals that come closer than this are one; a person takes longer. */
export const TWICE_MS = 200;

/** Returns the function that takes the listeners off again. */
export function onSignals(stop: () => void): () => void {
  let askedAt: number | null = null;
  const listeners = Object.entries(NUMBERS).map(([name, number]) => {
    const listener = () => {
      if (askedAt === null) {
        askedAt = performance.now();
        stop();
      } else if (performance.now() - askedAt >= TWICE_MS) process.exit(128 + number);
    };
    process.on(name, listener);
    return () => process.off(name, listener);
  });
  return () => {
    for (const off of listeners) off();
  };
}

interface SignalHandle {
  onsignal: () => void;
  start(number: number): number;
  unref(): void;
  close(): void;
}

interface SignalWrap {
  readonly Signal: new () => SignalHandle;
}

interface Bindings {
  binding(name: 'signal_wrap'): SignalWrap;
}

/** What a thread that is to hear signals has to be started with: Node 24 closed the older door. */
export const HEARING_ARGUMENTS: readonly string[] =
  Number(process.versions.node.split('.')[0]) >= 24 ? ['--expose-internals'] : [];

/** Node's own way to a signal, which it offers to nobody else; both doors warn who comes through them. */
function signalWrap(): SignalWrap {
  const warn = process.emitWarning;
  process.emitWarning = () => undefined;
  try {
    if (HEARING_ARGUMENTS.length === 0) {
      return (process as unknown as Bindings).binding('signal_wrap');
    }
    const load = createRequire(import.meta.url);
    return load('internal/test/binding').internalBinding('signal_wrap');
  } finally {
    process.emitWarning = warn;
  }
}

/**
 * The same signals in a worker thread, where `process.on` does not hear them. A Node that has closed both
 * doors throws here. Returns how to stop.
 */
export function hearSignals(heard: () => void): () => void {
  const { Signal } = signalWrap();
  const handles = Object.values(NUMBERS).map((number) => {
    const handle = new Signal();
    handle.onsignal = heard;
    handle.unref();
    const failed = handle.start(number);
    if (failed !== 0) throw new Error(`signal ${number} cannot be heard (${failed})`);
    return handle;
  });
  return () => {
    for (const handle of handles) handle.close();
  };
}

/**
 * Ends the process if it is still there after a while; it does not keep it. For handlers that go on
 * after their jobs were handed back: whatever they have open would keep the process for ever.
 */
export function exitAfter(ms: number): void {
  setTimeout(() => {
    say('handlers that did not end kept the process; it exits now');
    process.exit();
  }, ms).unref();
}

/** From any thread, at once, after a last line on stderr. */
export function endProcess(why: string): void {
  say(`${why}; the process is ended (SIGKILL)`);
  process.kill(process.pid, 'SIGKILL');
  // The first process of a container cannot be killed from inside; a fault of its own ends it, too.
  setTimeout(() => {
    setFlagsFromString('--allow-natives-syntax');
    new Function('%SystemBreak()')();
  }, 20);
}

/** Past the streams of Node: those of a thread go through the main thread, which may not turn. */
function say(text: string): void {
  try {
    writeSync(2, `holdfast: ${text}\n`);
  } catch {
    // Nobody reads it, or the pipe is full. The process ends all the same.
  }
}
