/**
 * The demo from beginning to end: it opens, customers order, things are done to the fleet, and the
 * proof is made. A run that ends by its time lets the fleet finish what is due, within a limit;
 * one that is quit leaves that to the next start.
 */
import { closePool, isTransient } from 'holdfast/internal';
import { Acts } from './acts.js';
import type { DemoDatabase } from './database.js';
import { Ending } from './ending.js';
import { newsReport } from './events/report.js';
import {
  figureLine,
  fleetLine,
  isProven,
  rateSpan,
  recoveryText,
  reportLines,
  summaryLines,
  toldLine,
  verdict,
} from './figures.js';
import { type Key, keyLine, readKeys } from './keys.js';
import { type Opened, openDemo } from './opening.js';
import type { Picture } from './picture.js';
import type { Screen, Span } from './screen.js';
import { checkoutReport } from './shop/checkout-report.js';
import { officeReport } from './shop/office.js';
import { Producer } from './shop/producer.js';
import { readTill, tillText } from './shop/till.js';
import { tellStory } from './story.js';
import type { DemoOptions } from './usage.js';
import { Watch } from './watch.js';

const FINISH_MS = 15_000;
const LINE_EVERY_MS = 5_000;
const CLOSE_MS = 300;

/** Returns the exit code: 0 only if all of the proof holds. */
export async function runDemo({ forMs }: DemoOptions, screen: Screen): Promise<number> {
  const opened = await openDemo(screen);
  const { pool, hf, fleet, lab, recoveries, ordersBefore } = opened;
  const { say } = screen;
  const ending = new Ending();
  const producer = new Producer(pool, hf);
  const outage = new Outage(opened.database, screen);
  const show = showing(screen, opened, ending);
  const watch = new Watch({
    pool,
    recoveries,
    untold: async () => (await newsReport(pool, hf)).open,
    promised: () => ordersBefore + producer.promised,
    onPicture(picture) {
      outage.over();
      show(picture);
    },
    onRecovery: (recovery) => say([recoveryText(recovery), 'good']),
    onError: (error) => outage.record(error),
  });
  const acts = new Acts({ fleet, producer, watch, say });
  lab.use({ fleet, watch, acts });
  const press = (key: Key) => {
    if (key === 'q') ending.interrupt();
    else if (!ending.over.aborted) acts.press(key);
  };
  const restore = screen.live ? readKeys(process.stdin, press) : null;
  process.once('exit', () => restore?.());
  process.stdout.on('error', () => ending.ask());

  const placing = producer.run();
  say('the shop is open: jobs in order per order, and checkouts');
  if (forMs !== null) ending.after(forMs);
  const watching = watch.run();
  const story = restore ? null : tellStory(acts, recoveries, forMs, ending.over);
  await Promise.race([ending.wait(), watching, placing]);
  watch.stop();
  await Promise.all([watching, story]);
  return close(opened, { producer, watch, ending, screen, restore });
}

interface Running {
  readonly producer: Producer;
  readonly watch: Watch;
  readonly ending: Ending;
  readonly screen: Screen;
  readonly restore: (() => void) | null;
}

async function close(opened: Opened, running: Running): Promise<number> {
  const { dashboard, lab, database, pool, hf, receivers, fleet, recoveries } = opened;
  const { producer, watch, ending, screen, restore } = running;
  const asked = ending.hurry.aborted;
  screen.say(
    asked
      ? 'closing: no new orders, and the workers drain'
      : 'the time is over: no new orders, and the fleet finishes what is due',
  );
  lab.use(null);
  await producer.stop();
  await watch.untilIdle(FINISH_MS, ending.hurry);
  await fleet.stop();
  const picture = await watch.last();
  screen.keep([]);
  restore?.();
  screen.print();
  for (const line of summaryLines(picture, recoveries)) screen.print(...line);
  const till = await readTill(pool);
  screen.print(`  ${'till counted'.padEnd(16)}`, tillText(till));
  const [checkouts, office] = [await checkoutReport(pool), await officeReport(pool)];
  const news = await newsReport(pool, hf);
  for (const report of [office, checkouts, news])
    for (const line of reportLines(report)) screen.print(...line);
  const evidence = { proof: picture.proof, checkouts, office, news, till };
  screen.print();
  screen.print(verdict(evidence));
  receivers.close();
  await dashboard.close();
  await hf.close();
  await closePool(pool, CLOSE_MS);
  await database.close();
  return isProven(evidence) ? 0 : 1;
}

/** On a terminal the figures stay in place; elsewhere they come by every few seconds. */
function showing(
  screen: Screen,
  { fleet, receivers }: Opened,
  ending: Ending,
): (picture: Picture) => void {
  let next = performance.now() + LINE_EVERY_MS;
  return (picture) => {
    const told = toldLine(receivers.heard);
    const below: Span[][] = [[], [...figureLine(picture), rateSpan(picture)], told];
    if (!ending.over.aborted) below.push(fleetLine(fleet.members, picture.seen), keyLine());
    screen.keep(below);
    if (screen.live || ending.hurry.aborted || performance.now() < next) return;
    next = performance.now() + LINE_EVERY_MS;
    screen.figures(...figureLine(picture));
  };
}

/** A database that goes away is waited for, or started again if that is ours to do. */
class Outage {
  readonly #database: DemoDatabase;
  readonly #screen: Screen;
  #reported = false;

  constructor(database: DemoDatabase, screen: Screen) {
    this.#database = database;
    this.#screen = screen;
  }

  async record(error: unknown): Promise<void> {
    if (!isTransient(error)) throw error;
    if (!this.#reported)
      this.#screen.say(['the database does not answer; the fleet waits', 'worry']);
    this.#reported = true;
    await this.#database.revive();
  }

  over(): void {
    if (this.#reported) this.#screen.say(['the database answers again', 'good']);
    this.#reported = false;
  }
}
