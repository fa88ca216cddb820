/**
 * The lab's engine: opens a journey on empty tables, lets people act on it and time pass, and hands out the frames that
 * came of it. One journey is open at a time. It knows of no page: the tests call it as the page's worker does.
 */
import type { Server } from '../simulation/server.js';
import { Checkout } from './checkout.js';
import { Crash } from './crash.js';
import { Fleet } from './fleet.js';
import type { Act, Frame, Journey, Settings } from './frame.js';
import { HEARTBEAT, HeartbeatRun, type HeartbeatState, timelineOf } from './heartbeat.js';
import { Receipt } from './receipt.js';
import { Ring } from './ring.js';
import { Stage } from './stage.js';
import { Timing } from './timing.js';

const JOURNEYS = {
  ...{ receipt: Receipt, crash: Crash, ring: Ring },
  ...{ timing: Timing, fleet: Fleet, checkout: Checkout },
};
export type JourneyName = keyof typeof JOURNEYS | 'heartbeat';

export type Progress = (text: string) => void;

export class Lab {
  readonly #server: Server;
  #open: { readonly stage: Stage; readonly journey: Pick<Journey, 'act' | 'advance'> } | null =
    null;

  constructor(server: Server) {
    this.#server = server;
  }

  /** From the beginning: the same name, seed and settings give the same frames. */
  async open(
    name: JourneyName,
    seed: number,
    settings: Settings = {},
    progress: Progress = () => undefined,
  ): Promise<Frame[]> {
    this.#open = null;
    if (name === 'heartbeat') return this.#openHeartbeat(seed, settings, progress);
    const stage = new Stage(this.#server, seed);
    const journey = new JOURNEYS[name](stage, settings);
    await stage.within(() => journey.begin());
    this.#open = { stage, journey };
    return stage.frames.splice(0);
  }

  /** The two fleets one after the other, for there is one database; then side by side. */
  async #openHeartbeat(seed: number, settings: Settings, progress: Progress): Promise<Frame[]> {
    const line = timelineOf(settings);
    const shoot = async (livenessLock: boolean, what: string) => {
      const stage = new Stage(this.#server, seed);
      const run = new HeartbeatRun(stage, line, livenessLock);
      const tell = (at: number) =>
        progress(`${what}: second ${Math.round(at / 1_000)} of ${line.endAt / 1_000}`);
      return stage.within(() => run.run(tell));
    };
    const article = await shoot(false, 'The article’s course');
    const holdfast = await shoot(true, 'Holdfast’s course');
    this.#open = { stage: new Stage(this.#server, seed), journey: HEARTBEAT };
    return holdfast.map(({ at, picture, sql, say }, place) => {
      const other = article[place];
      const state: HeartbeatState = { ...line, holdfast: picture, article: other?.picture ?? null };
      const both = [say && `Holdfast: ${say}`, other?.say && `The article: ${other.say}`];
      return { at, state, tone: 'plain', sql, say: both.filter(Boolean).join(' ') };
    });
  }

  act(act: Act): Promise<Frame[]> {
    return this.#goOn((journey) => journey.act(act));
  }

  advance(ms: number): Promise<Frame[]> {
    return this.#goOn((journey) => journey.advance(ms));
  }

  async #goOn(what: (journey: Pick<Journey, 'act' | 'advance'>) => Promise<void>) {
    if (!this.#open) throw new Error('No journey is open; open one first.');
    const { stage, journey } = this.#open;
    await stage.within(() => what(journey));
    return stage.frames.splice(0);
  }
}
