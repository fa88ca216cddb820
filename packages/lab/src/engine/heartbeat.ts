/**
 * Journey 4, the heartbeat timeline: three workers, and one of them is killed, frozen or told to stop at a chosen
 * second. The same fleet runs twice, from the same seed: once as the article has it, where only silence tells of a
 * death, and once as Holdfast is, where a killed process also loses its lock. Both runs are computed, then played.
 */
import type { WorkerEvent } from 'holdfast';
import type { Answer } from '../simulation/wire.js';
import type { Frame, Journey, Settings, Sql } from './frame.js';
import { Processes, type Standing } from './processes.js';
import { jobsText, type Stage, seconds } from './stage.js';

export type Fault = 'kill' | 'freeze' | 'stop';
const VICTIM = 'worker-2';
const FRAME_MS = 500;
/** A job every so often, each of them so long. */
const [EVERY_MS, JOB_MS] = [750, 6_000];
const HEARTBEAT_MS = 10_000;
/** A frozen worker wakes up so long after its TTL: a round of maintenance has come by then. */
const FREEZE_BEYOND_MS = 15_000;

export interface Timeline {
  readonly fault: Fault;
  readonly faultAt: number;
  readonly ttlMs: number;
  readonly endAt: number;
}

/** What one of the two fleets looks like at a time, and what has happened to it so far. */
export interface FleetPicture {
  readonly workers: readonly {
    readonly name: string;
    readonly standing: Standing;
    /** What the registry says of its ids, the last one first. */
    readonly registry: readonly string[];
    readonly running: number;
  }[];
  readonly beats: readonly { readonly at: number; readonly by: string }[];
  /** When the registry called the victim dead. */
  readonly deadAt: number | null;
  /** When the first of its jobs ran elsewhere. */
  readonly takenAt: number | null;
  /** Its jobs when it was struck, and how many of them run or ran elsewhere. */
  readonly orphans: number;
  readonly taken: number;
  /** It came back: under a new id, and so many of its completions were refused. */
  readonly backAt: number | null;
  readonly refused: number;
  readonly log: readonly string[];
}

/** One of the two at a time. */
export interface Shot {
  readonly at: number;
  readonly picture: FleetPicture;
  readonly sql: readonly Sql[];
  readonly say: string;
}

export interface HeartbeatState extends Timeline {
  readonly article: FleetPicture | null;
  readonly holdfast: FleetPicture;
}

export function timelineOf(settings: Settings): Timeline {
  const number = (name: string, usual: number, least: number, most: number) => {
    const value = Number(settings[name] ?? usual);
    return 1_000 * Math.min(most, Math.max(least, Number.isFinite(value) ? value : usual));
  };
  const fault = (['kill', 'freeze', 'stop'] as const).find((one) => one === settings.fault);
  const ttlMs = number('ttl', 30, 30, 60);
  const faultAt = number('at', 12, 5, 30);
  const afterMs = fault === 'freeze' ? FREEZE_BEYOND_MS + 10_000 : 15_000;
  return { fault: fault ?? 'kill', faultAt, ttlMs, endAt: faultAt + ttlMs + afterMs };
}

/** One of the two runs, half a second a frame. */
export class HeartbeatRun {
  readonly #stage: Stage;
  readonly #line: Timeline;
  readonly #processes: Processes;
  readonly #beats: { at: number; by: string }[] = [];
  readonly #log: string[] = [];
  #orphans: string[] = [];
  #deadAt: number | null = null;
  #backAt: number | null = null;
  #refused = 0;
  /** So many lines of the log are in frames. */
  #told = 0;
  #victim: string | null = null;

  constructor(stage: Stage, line: Timeline, livenessLock: boolean) {
    this.#stage = stage;
    this.#line = line;
    this.#processes = new Processes(stage, {
      // By key, so that the ring gives each of them something to do.
      queue: 'ordered',
      worker: {
        ...{ concurrency: 10, heartbeat: HEARTBEAT_MS, ttl: line.ttlMs, lease: 90_000 },
        ...{ livenessLock, grace: 8_000, maintenance: livenessLock ? 10_000 : 2_000 },
      },
      onEvent: (name, event) => this.#heard(name, event),
      onProblem: (text) => this.#say(text),
    });
    stage.onStatement = (by, name, answer) => this.#ran(by, name, answer);
  }

  /** Both runs have the same frames, so that they can be laid side by side. */
  async run(progress: (at: number) => void): Promise<Shot[]> {
    const { endAt, faultAt } = this.#line;
    const processes = this.#processes;
    for (let n = 0; n < 3; n++) processes.start(processes.newName(), 20 * n);
    // Before and after the fault; later jobs would only hide what becomes of these.
    for (let at = 1_500; at < faultAt + JOB_MS; at += EVERY_MS)
      processes.later(at, () => processes.enqueue(`order:${at / EVERY_MS}`, { ms: JOB_MS }));
    processes.later(faultAt, () => this.#strike());
    const shots: Shot[] = [];
    for (let at = 0; at <= endAt; at += FRAME_MS) {
      await this.#stage.clock.runUntil(at);
      const from = this.#log.length;
      const picture = this.#picture();
      // The frame takes the statements with it.
      this.#stage.frame('', null, 'plain', ({ count, name }) => count > 0 && TOLD.test(name));
      const { sql } = this.#stage.frames.pop() as Frame;
      shots.push({ at, picture, sql, say: this.#log.slice(this.#told, from).join(' ') });
      this.#told = from;
      progress(at);
    }
    return shots;
  }

  #strike(): void {
    const { fault, ttlMs } = this.#line;
    const one = this.#processes.named(VICTIM);
    this.#victim = one?.ids.at(-1) ?? null;
    this.#orphans = this.#processes.runs
      .filter(({ by, to }) => by === VICTIM && to === null)
      .map(({ job }) => job);
    if (fault === 'kill') this.#processes.kill(VICTIM);
    else if (fault === 'stop') this.#processes.stop(VICTIM);
    // It wakes up when others have taken its jobs.
    else this.#processes.freeze(VICTIM, ttlMs + FREEZE_BEYOND_MS);
    const what = { kill: 'is killed', stop: 'gets SIGTERM', freeze: 'is frozen' }[fault];
    this.#say(`${VICTIM} ${what}, with ${jobsText(this.#orphans.length)} in hand.`);
  }

  #heard(name: string, event: WorkerEvent): void {
    if (event.kind === 'heartbeat') this.#beats.push({ at: this.#stage.now, by: name });
    else if (event.kind === 'reregistered') {
      this.#backAt = this.#stage.now;
      this.#say(`${name} is back: its old id is dead, so it registers under a new one.`);
    } else if (event.kind === 'lost') {
      this.#refused++;
      if (this.#refused === 1) this.#say(`${name} learns that its jobs are no longer its own.`);
    } else if (event.kind === 'stopped') this.#say(`${name} has drained and left.`);
  }

  #ran(by: string, name: string, { rows }: Answer): void {
    if (this.#deadAt !== null || !this.#victim) return;
    if (!/^(declare_gone|sweep_workers|leave_worker)$/.test(name)) return;
    if (!rows.some((row) => row.includes(this.#victim))) return;
    this.#deadAt = this.#stage.now;
    const after = seconds(Math.round((this.#stage.now - this.#line.faultAt) / 100) * 100);
    if (name === 'leave_worker') this.#say(`${by} says itself that it leaves.`);
    else this.#say(`${by} declares ${VICTIM} dead, ${after} after the ${WORDS[this.#line.fault]}.`);
  }

  #say(text: string): void {
    this.#log.push(text);
  }

  #picture(): FleetPicture {
    const { runs, present } = this.#processes;
    const registry = new Map(
      this.#stage
        .look('SELECT id, status FROM holdfast.workers')
        .map(({ id, status }) => [id, status]),
    );
    const takers = runs.filter(
      ({ job, by, from }) =>
        this.#orphans.includes(job) && by !== VICTIM && from >= this.#line.faultAt,
    );
    return {
      workers: present.map(({ name, standing, ids }) => ({
        ...{ name, standing, registry: ids.map((id) => registry.get(id) ?? 'gone').reverse() },
        running:
          standing === 'killed'
            ? 0
            : runs.filter(({ by, to }) => by === name && to === null).length,
      })),
      beats: [...this.#beats],
      ...{ deadAt: this.#deadAt, backAt: this.#backAt, refused: this.#refused },
      ...{ takenAt: takers[0]?.from ?? null, orphans: this.#orphans.length },
      taken: new Set(takers.map(({ job }) => job)).size,
      log: [...this.#log],
    };
  }
}

const WORDS: Readonly<Record<Fault, string>> = { kill: 'kill', freeze: 'freeze', stop: 'signal' };
const TOLD =
  /^(declare_gone|sweep_workers|recover|leave_worker|drain_worker|register_worker|release|look_around)$/;

/** It is computed as a whole; nothing can be done to it while it plays. */
export const HEARTBEAT: Pick<Journey, 'act' | 'advance'> = {
  act: async () => undefined,
  advance: async () => undefined,
};
