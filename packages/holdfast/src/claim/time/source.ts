/**
 * The source of a queue that is read by time: the lines of the handled types (lines.ts), now and then aged jobs (aged.ts),
 * and the keys of rates that have some (walks.ts).
 */
import type { Found, Hint, LeftJob, Source, SourceDeps } from '../source.js';
import { AgedLines } from './aged.js';
import { claimTime, type TimeClaim, type TimeRequest } from './claim.js';
import { LAG_MS, Lines } from './lines.js';
import { claimRateKeys } from './rated.js';
import { RateWalks } from './walks.js';

export class TimeSource implements Source {
  readonly #deps: SourceDeps;
  readonly #lines: Lines;
  readonly #aged: AgedLines;
  readonly #walks: RateWalks;
  readonly #open = (type: string) => this.#deps.allowance.isOpen(type);
  /** There was no room for jobs whose rate has keys. */
  #ratedWait = false;
  #merges = false;

  constructor(deps: SourceDeps) {
    this.#deps = deps;
    this.#lines = new Lines(deps.versions);
    this.#aged = new AgedLines(deps.versions);
    this.#walks = new RateWalks(deps.versions);
  }

  useKeys(types: readonly string[]): void {
    this.#walks.use(types);
  }

  hint({ since, types }: Hint): void {
    this.#lines.hint(since, types, this.#deps.clock.now());
    this.#walks.hint(types);
  }

  due(at: number): void {
    this.#walks.due(at);
  }

  left({ row, released }: LeftJob): boolean {
    // It waits again where this worker has read already.
    if (released) this.#lines.returned(row);
    return released;
  }

  readAt(now: number): number {
    return Math.min(this.#deps.allowance.opensAt, this.#walks.readAt(now, this.#open));
  }

  async read(limit: number, ask: boolean): Promise<Found> {
    const { clock } = this.#deps;
    // Those that found no room beside the others come first.
    const first = this.#ratedWait ? await this.#readRated(Math.ceil(limit / 2), false) : 0;
    const aged = await this.#readAged(limit - first);
    const rest = limit - first - aged;
    if (rest <= 0) return { jobs: limit, waitedMs: 0, news: null };
    const began = clock.now();
    const lines = this.#lines.take(began, rest, this.#open, ask);
    const scanning = this.#lines.scanning;
    const claimed = await this.#claim(rest, { lines, ask });
    this.#lines.record(claimed, rest, clock.now(), clock.now() - began);
    this.#aged.recordOrdinary(claimed, rest);
    const { jobs, news, cut, found } = claimed;
    const [oldest] = jobs;
    const waitedMs = oldest ? claimed.clock - Date.parse(oldest.cursorAt) : 0;
    const cutShort = cut !== null && this.#lines.wants(this.#open);
    const rated = await this.#readRated(rest - jobs.length, scanning);
    const goesOn = found < rest && (cutShort || this.#walks.goesOn(this.#open));
    return { jobs: first + aged + rated + Math.max(jobs.length, found), waitedMs, goesOn, news };
  }

  /** Jobs whose rate has keys. Returns how many it took. */
  async #readRated(limit: number, scanning: boolean): Promise<number> {
    const { clock, engine, names, send, allowance } = this.#deps;
    const asked = this.#walks.take(clock.now(), limit, this.#open, scanning);
    this.#ratedWait = asked.walks.length > 0 && limit <= 0;
    if (asked.walks.length === 0 || limit <= 0) return 0;
    const claimed = await send(limit, (terms) =>
      claimRateKeys(engine, names, { ...terms, ...asked }),
    );
    allowance.record(claimed.jobs, claimed.refused);
    this.#walks.record(claimed, limit, clock.now());
    return claimed.jobs.length;
  }

  /** What more urgent jobs have kept waiting for too long. Returns how many it took. */
  async #readAged(room: number): Promise<number> {
    const { clock } = this.#deps;
    const began = clock.now();
    const share = this.#aged.take(began, room, this.#open);
    if (!share) return 0;
    const { lines, limit } = share;
    const claimed = await this.#claim(limit, { lines, ask: false, aged: true });
    this.#aged.record(claimed, limit, clock.now(), clock.now() - began);
    return claimed.jobs.length;
  }

  async #claim(
    limit: number,
    asked: Pick<TimeRequest, 'lines' | 'ask' | 'aged'>,
  ): Promise<TimeClaim> {
    const { engine, names, send, allowance } = this.#deps;
    const claimed = await send(limit, (terms) =>
      claimTime(engine, names, { ...terms, ...asked, lagMs: LAG_MS, merge: this.#merges }),
    );
    this.#merges = claimed.merges;
    allowance.record(claimed.jobs, claimed.refused);
    return claimed;
  }
}
