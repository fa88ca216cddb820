/**
 * `holdfast top`: the system, drawn again and again. A terminal gets a screen of its own, which is gone at the end;
 * elsewhere frames follow each other. Rates are those between two frames. A database that is away is waited for.
 */
import { setTimeout } from 'node:timers/promises';
import { ringOwner } from '../../../api/look/ring.js';
import { markStopped } from '../../../inspect/explain/stopped.js';
import { openOverview, type PartialOverview } from '../../../inspect/queue/overview.js';
import { durationMs } from '../../../job/options/duration.js';
import { isOutage, isTransient } from '../../../postgres/connect/transient.js';
import { type Call, EXIT } from '../../command.js';
import { frameLines, frameValue, type Rates, ratesBetween } from '../../print/frame.js';
import { plain } from '../../print/table.js';

// A screen of its own, no cursor, and lines that are too long are cut and not wrapped.
const ENTER = '\u001b[?1049h\u001b[?25l\u001b[?7l';
const LEAVE = '\u001b[?7h\u001b[?25h\u001b[?1049l';
const HOME = '\u001b[H';
const LINE_END = '\u001b[K\n';
const REST = '\u001b[J';
/** Whatever ends it, the terminal is given back as it was. */
const ENDS = ['SIGTERM', 'SIGHUP'] as const;

export async function run(call: Call): Promise<number> {
  const { given, session, out, signal } = call;
  const every = given.text('every');
  const everyMs = every === undefined ? 2_000 : durationMs(every, '--every', { min: 100 });
  const once = given.flag('once');
  const { stdout } = out.streams;
  const full = stdout.isTTY && !once && !out.json;
  const quit = new AbortController();
  const ended = AbortSignal.any([signal, quit.signal]);
  const restore = full ? takeScreen(call, () => quit.abort()) : () => {};
  try {
    let before: PartialOverview | null = null;
    while (!ended.aborted) {
      const { seen, why } = await ask(call, before === null);
      const rates: Rates = seen && before ? ratesBetween(before, seen) : new Map();
      if (full) draw(call, seen ? frameLines(out, seen, rates, session.schema) : [why]);
      else if (seen && out.json) await out.value(frameValue(seen, rates));
      else if (seen)
        for (const line of frameLines(out, seen, rates, session.schema)) await out.line(line);
      if (once) return seen?.locked.length ? EXIT.failed : EXIT.ok;
      before = seen ?? before;
      await setTimeout(everyMs, undefined, { signal: ended }).catch(() => undefined);
    }
    return quit.signal.aborted ? EXIT.ok : EXIT.interrupted;
  } finally {
    restore();
  }
}

const AWAY = 'The database cannot be reached; trying again.';

interface Asked {
  readonly seen: PartialOverview | null;
  /** What keeps it from being seen. */
  readonly why: string;
}

/** `first`: there is no frame before it whose counts would give the rates. */
async function ask({ session, given, out }: Call, first: boolean): Promise<Asked> {
  try {
    const seen = await session.read(async (db, part) => {
      const all = await openOverview(db, part, session.schema, { withRates: first });
      const { queues } = await markStopped(db, part, session.schema, all.queues, ringOwner);
      return { ...all, queues };
    });
    return { seen, why: '' };
  } catch (error) {
    if (given.flag('once') || !isTransient(error)) throw error;
    const why = isOutage(error) ? AWAY : `${plain((error as Error).message)} Trying again.`;
    if (!out.streams.stdout.isTTY) out.note(why);
    return { seen: null, why };
  }
}

function draw({ out }: Call, lines: readonly string[]): void {
  const { stdout } = out.streams;
  const fit = lines.slice(0, (stdout.rows ?? 24) - 1);
  stdout.write(`${HOME}${fit.join(LINE_END)}${LINE_END}${REST}`);
}

function takeScreen({ out }: Call, quit: () => void): () => void {
  const { stdout } = out.streams;
  const onKey = (data: Buffer) => {
    // q, or Ctrl-C, which a terminal in raw mode hands on as a byte.
    if (data.includes(0x71) || data.includes(0x03)) quit();
  };
  const { stdin } = process;
  stdout.write(ENTER);
  for (const name of ENDS) process.once(name, quit);
  if (stdin.isTTY) {
    stdin.setRawMode(true);
    stdin.on('data', onKey);
    stdin.resume();
  }
  return () => {
    for (const name of ENDS) process.off(name, quit);
    if (stdin.isTTY) {
      stdin.off('data', onKey);
      stdin.setRawMode(false);
      stdin.pause();
    }
    stdout.write(LEAVE);
  };
}
