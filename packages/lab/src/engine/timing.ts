/**
 * Journey 5, timing: what a heartbeat, a TTL, a lease, a renewal, a round of maintenance and a handler's time do to
 * each other. First computed by arithmetic, for the worst case (timing-worst.ts); then played by two plain loops, worker-a and worker-b,
 * on the product's statements. They are loops of this page and not the product's worker, which refuses settings that
 * lose jobs, and holds a liveness lock beside: journey 4 shows that.
 */
import { findGone, insert, recover, renew, sweepDeadWorkers } from 'holdfast/internal';
import { Owner } from '../simulation/clock.js';
import { Desk, type Held, type RowState } from './desk.js';
import type { Journey, Settings, Tone } from './frame.js';
import { NAMES, type Stage, seconds } from './stage.js';
import { computed, POLL_MS, type Times, timesOf, type Verdict } from './timing-worst.js';

const [A, B] = ['worker-a', 'worker-b'];
const LONGEST_MS = 600_000;

export interface TimingState extends RowState {
  readonly times: Times;
  readonly computed: Verdict;
  /** What has happened so far. */
  readonly played: {
    readonly deadAt: number | null;
    readonly killedAt: number | null;
    readonly lostAt: number | null;
    readonly runs: readonly Readonly<Run>[];
    readonly recoveredAt: number | null;
    readonly over: boolean;
  };
}

interface Run {
  readonly by: string;
  readonly from: number;
  to: number | null;
}

/** More often than that, a heartbeat is no news. */
const NEWS_MS = 5_000;

export class Timing implements Journey {
  readonly #stage: Stage;
  readonly #desk: Desk;
  readonly #times: Times;
  readonly #a: Owner;
  readonly #b: Owner;
  readonly #runs: Run[] = [];
  #id: string | null = null;
  #deadAt: number | null = null;
  #lostAt: number | null = null;
  #struckAt: number | null = null;
  #recoveredAt: number | null = null;
  #done = false;
  #over = false;

  constructor(stage: Stage, settings: Settings) {
    this.#stage = stage;
    this.#desk = new Desk(stage);
    this.#times = timesOf(settings);
    this.#a = new Owner(A, stage.seed);
    this.#b = new Owner(B, stage.seed + 1);
  }

  /** The whole course, to its end. */
  async begin(): Promise<void> {
    const { clock } = this.#stage;
    const job = this.#desk.receipt(5, null);
    await insert(this.#desk.producer(), NAMES, [job]);
    this.#id = job.id;
    await this.#start(this.#a, A);
    this.#strike();
    this.#every(this.#a, this.#times.heartbeatMs, () => this.#beat(A));
    await this.#desk.worker(B);
    this.#every(this.#b, this.#times.heartbeatMs, () => this.#beat(B));
    this.#every(this.#b, this.#times.maintenanceMs, () => this.#maintain());
    this.#every(this.#b, POLL_MS, () => this.#poll());
    while (!this.#over && clock.nextAt < LONGEST_MS) {
      await clock.step();
      const goesOn = ({ to, by }: Run) => to === null && !(by === A && this.#a.dead);
      this.#over = this.#done && !this.#runs.some(goesOn);
    }
    const well = this.#over && (this.#runs.length === 1 || this.#times.fate === 'kill');
    this.#say(this.#ending(), well ? 'good' : 'bad');
  }

  async act(): Promise<void> {}
  async advance(): Promise<void> {}

  #every(owner: Owner, ms: number, run: () => Promise<unknown>): void {
    if (ms <= 0) return;
    this.#stage.clock.at(owner, ms, async () => {
      if (this.#over || (await run()) === false) return;
      this.#every(owner, ms, run);
    });
  }

  /** A claim and, after the handler's time, the completion. */
  async #start(owner: Owner, by: string): Promise<boolean> {
    const { handlerMs, leaseMs, renewMs } = this.#times;
    const held = await this.#desk.claim(by, { leaseMs });
    if (!held) return false;
    const run: Run = { by, from: this.#stage.now, to: null };
    const again = this.#runs.some(({ to }) => to === null) && !this.#a.dead;
    // Somebody who had it before the kill has not recovered it.
    if (this.#a.dead && this.#runs.every((one) => one.by === A))
      this.#recoveredAt ??= this.#stage.now;
    this.#runs.push(run);
    this.#say(
      `${by} claims the job, generation ${held.generation}.${again ? ' The other one still runs it: a double run.' : ''}`,
      again ? 'bad' : 'good',
    );
    this.#every(owner, renewMs, () => this.#renew(by, held, run));
    this.#stage.clock.at(owner, handlerMs, () => this.#end(by, held, run));
    return true;
  }

  async #end(by: string, held: Held, run: Run): Promise<void> {
    run.to = this.#stage.now;
    const moved = await this.#desk.complete(by, held);
    this.#done ||= moved > 0;
    if (moved > 0) return this.#say(`${by} is done and completes the job.`, 'good');
    this.#lost(by);
    this.#say(
      `${by} is done, and its completion moves 0 rows: the job was not its own.`,
      'refused',
    );
  }

  async #renew(by: string, { id, generation }: Held, run: Run): Promise<boolean> {
    if (run.to !== null) return false;
    const { leaseMs } = this.#times;
    const rows = await renew(await this.#desk.worker(by), NAMES, by, [{ id, generation }], leaseMs);
    if (rows.length > 0) {
      this.#say(`${by} renews its lease for ${seconds(leaseMs)}.`);
      return true;
    }
    this.#lost(by);
    this.#say(`${by} renews too late: 0 rows, the lease is lost.`, 'refused');
    return false;
  }

  #lost(by: string): void {
    if (by === A) this.#lostAt ??= this.#stage.now;
  }

  async #beat(by: string): Promise<boolean> {
    const { status } = await findGone(await this.#desk.worker(by), NAMES, by, {});
    if (by === B) return true;
    if (status === 'dead') {
      this.#say(`${by} sends a heartbeat and learns that it counts as dead.`, 'refused');
      return false;
    }
    if (this.#times.heartbeatMs >= NEWS_MS) this.#say(`${by} sends a heartbeat.`);
    return true;
  }

  async #maintain(): Promise<void> {
    const db = await this.#desk.worker(B);
    const dead = await sweepDeadWorkers(db, NAMES, B, this.#times.ttlMs);
    if (dead.includes(A)) {
      this.#deadAt ??= this.#stage.now;
      const lives = !this.#a.dead;
      this.#say(
        `${B} declares ${A} dead after ${seconds(this.#times.ttlMs)} of silence.${lives ? ' It lives: a false death.' : ''}`,
        'bad',
      );
    }
    const moved = await recover(db, NAMES, { limit: 100, recoverer: B });
    if (moved.length > 0) this.#say(`${B} recovers the job: pending again.`, 'good');
  }

  async #poll(): Promise<void> {
    if (this.#done || this.#runs.some(({ by, to }) => by === B && to === null)) return;
    await this.#start(this.#b, B);
  }

  /** At the worst moment: a stall just before a heartbeat, a kill just after one. */
  #strike(): void {
    const { fate, heartbeatMs, handlerMs, stallMs } = this.#times;
    if (fate === 'nothing') return;
    const at = Math.min(fate === 'stall' ? heartbeatMs - 100 : heartbeatMs + 50, handlerMs / 2);
    this.#stage.clock.at(this.#b, at, () => {
      this.#struckAt = this.#stage.now;
      if (fate === 'kill') this.#a.dead = true;
      else this.#a.frozenUntil = this.#stage.now + stallMs;
      this.#say(
        fate === 'kill' ? `${A} is killed.` : `${A} stands still for ${seconds(stallMs)}.`,
        'bad',
      );
    });
  }

  #ending(): string {
    const ended = this.#runs.filter(({ to }) => to !== null).length;
    if (!this.#over)
      return `Ten minutes went by: the handler ran ${ended} times, and no completion counted.`;
    if (this.#recoveredAt !== null && this.#struckAt !== null)
      return `Done: the job ran again ${seconds(this.#recoveredAt - this.#struckAt)} after the kill.`;
    return ended > 1
      ? `Done, and the handler ran ${ended} times: once is the fence's to count, twice the mail's.`
      : 'Done: the handler ran once.';
  }

  #say(text: string, tone: Tone = 'plain'): void {
    const state: TimingState = {
      ...this.#desk.state(this.#id),
      ...{ times: this.#times, computed: computed(this.#times) },
      played: {
        ...{ deadAt: this.#deadAt, lostAt: this.#lostAt, over: this.#over },
        killedAt: this.#a.dead ? this.#struckAt : null,
        runs: this.#runs.map((run) => ({ ...run })),
        recoveredAt: this.#recoveredAt === null ? null : this.#recoveredAt - (this.#struckAt ?? 0),
      },
    };
    this.#stage.frame(
      text,
      state,
      tone,
      ({ by, count, name }) => by !== B || (count > 0 && name !== 'look_around'),
    );
  }
}
