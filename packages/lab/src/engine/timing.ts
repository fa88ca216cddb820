/**
 * Journey 5, timing: what a heartbeat, a TTL, a lease, a renewal, a round of maintenance and a handler's time do to
 * each other. First computed by arithmetic, for the worst case; then played by two plain loops, worker-a and worker-b,
 * on the product's statements. They are loops of this page and not the product's worker, which refuses settings that
 * lose jobs, and holds a liveness lock beside: journey 4 shows that.
 */
import {
  complete,
  findGone,
  insert,
  recover,
  renew,
  resolveOptions,
  sweepDeadWorkers,
} from 'holdfast/internal';
import { Owner } from '../simulation/clock.js';
import { Desk, type Held, type RowState } from './desk.js';
import type { Journey, Settings, Tone } from './frame.js';
import { NAMES, type Stage, seconds } from './stage.js';

const [A, B] = ['worker-a', 'worker-b'];
const POLL_MS = 1_000;
const LONGEST_MS = 600_000;

export type Fate = 'nothing' | 'stall' | 'kill';

export interface Times {
  readonly heartbeatMs: number;
  readonly ttlMs: number;
  readonly leaseMs: number;
  /** 0: never. */
  readonly renewMs: number;
  readonly maintenanceMs: number;
  readonly handlerMs: number;
  /** How long worker-a stands still, if that is its fate. */
  readonly stallMs: number;
  readonly fate: Fate;
}

export interface Verdict {
  /** A worker that lives can be called dead. */
  readonly falseDeath: boolean;
  readonly lostLease: boolean;
  readonly doubleRun: boolean;
  /** From a kill to the next claim of the job, at worst. */
  readonly recoveryMs: number;
  /** What Holdfast's worker says to these settings; null: it takes them. */
  readonly refusal: string | null;
}

export interface TimingState extends RowState {
  readonly times: Times;
  readonly computed: Verdict;
  /** What has happened so far. */
  readonly played: {
    readonly deadAt: number | null;
    readonly killedAt: number | null;
    readonly lostAt: number | null;
    readonly runs: readonly {
      readonly by: string;
      readonly from: number;
      readonly to: number | null;
    }[];
    readonly recoveredAt: number | null;
    readonly over: boolean;
  };
}

const DEFAULTS = {
  heartbeat: 10,
  ttl: 30,
  lease: 90,
  renew: 30,
  maintenance: 10,
  handler: 120,
  stall: 40,
};

export function timesOf(settings: Settings): Times {
  const ms = (name: keyof typeof DEFAULTS, least: number) => {
    const value = Number(settings[name] ?? DEFAULTS[name]);
    const known = Number.isFinite(value) ? value : DEFAULTS[name];
    return Math.round(1_000 * Math.min(300, Math.max(least, known)));
  };
  const fate = (['nothing', 'stall', 'kill'] as const).find((one) => one === settings.fate);
  return {
    ...{ heartbeatMs: ms('heartbeat', 1), ttlMs: ms('ttl', 1), leaseMs: ms('lease', 1) },
    ...{
      renewMs: ms('renew', 0),
      maintenanceMs: ms('maintenance', 1),
      handlerMs: ms('handler', 1),
    },
    ...{ stallMs: ms('stall', 0), fate: fate ?? 'nothing' },
  };
}

/** The arithmetic, for the worst moment. */
export function computed(times: Times): Verdict {
  const { heartbeatMs, ttlMs, leaseMs, renewMs, maintenanceMs, handlerMs, fate } = times;
  const stallMs = fate === 'stall' ? times.stallMs : 0;
  const endMs = handlerMs + stallMs;
  // The longest silence of a worker that lives; it matters only if a sweep comes before it ends.
  const silenceMs = heartbeatMs + stallMs;
  const falseDeath = silenceMs > ttlMs;
  const unrenewedMs = renewMs === 0 ? endMs : Math.min(endMs, renewMs + stallMs);
  // A renewal in the moment in which the lease ends comes too late.
  const lostLease = unrenewedMs >= leaseMs || (falseDeath && endMs > ttlMs);
  return {
    ...{ falseDeath, lostLease, doubleRun: lostLease },
    // By silence: the last beat came just before. By the lease: it was renewed just before, and claims take it.
    recoveryMs: Math.min(ttlMs + maintenanceMs, leaseMs) + POLL_MS,
    refusal: refusalOf(times),
  };
}

function refusalOf({ heartbeatMs, ttlMs, leaseMs, renewMs, maintenanceMs }: Times): string | null {
  if (renewMs === 0) return 'Holdfast always renews: renewEvery cannot be turned off.';
  try {
    resolveOptions({
      ...{ heartbeat: heartbeatMs, ttl: ttlMs, lease: leaseMs, renewEvery: renewMs },
      maintenance: maintenanceMs,
    });
    return null;
  } catch (error) {
    return (error as Error).message;
  }
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

  async #end(by: string, { id, generation }: Held, run: Run): Promise<void> {
    run.to = this.#stage.now;
    const moved = await complete(await this.#desk.worker(by), NAMES, by, [{ id, generation }]);
    this.#done ||= moved.length > 0;
    if (moved.length > 0) return this.#say(`${by} is done and completes the job.`, 'good');
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
