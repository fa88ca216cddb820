/**
 * Journey 6, many workers: real workers on a queue that is read by key. Processes are added, killed, frozen and
 * drained; jobs come one by one, in bursts, on a hot key, in eight shards of it, and one that kills its process. The
 * count of what was accepted, done, lost and doubled is taken from the tables and from the handlers themselves.
 */

import type { WorkerEvent } from 'holdfast';
import { shardedKey } from 'holdfast';
import { checkKey, ringOwners } from 'holdfast/internal';
import type { Act, Journey, Settings, Sql, Tone } from './frame.js';
import { Processes, type Run } from './processes.js';
import { jobsText, problemOf, type Stage, seconds } from './stage.js';

const QUEUE = 'ordered';
const FRAME_MS = 250;
const FREEZE_MS = 12_000;
const RESTART_MS = 3_000;
const BURST = 40;
const HOT = 24;
const MOST_PROCESSES = 8;
const MOST_LINES = 8;
const MOST_KEYS = 12;
const LIVE = `SELECT status, partition_key AS key, count(*) AS jobs FROM holdfast.${QUEUE}
  GROUP BY status, partition_key ORDER BY partition_key, status`;
/** Jobs of the queue, by status and key. */
interface Live {
  readonly status: string;
  readonly key: string;
  readonly jobs: number;
}
/** So much shorter than the defaults that one sees it: a frozen worker is dead after 6 s. */
const TIMES = {
  ...{ concurrency: 4, lease: 9_000, renewEvery: 3_000, heartbeat: 2_000, ttl: 6_000 },
  ...{ maintenance: 2_000, grace: 4_000 },
};

export interface FleetWorker {
  readonly name: string;
  readonly id: string | null;
  readonly standing: string;
  readonly buckets: number;
  readonly done: number;
  readonly running: readonly { readonly job: string; readonly key: string }[];
}

export interface Counts {
  readonly accepted: number;
  readonly done: number;
  readonly running: number;
  readonly waiting: number;
  readonly deadLetters: number;
  /** Accepted, and in no table. */
  readonly lost: number;
  /** Handlers that ran to their end more than once for one job: at least once means just that. */
  readonly doubled: number;
  /** Completions beyond the first of a job, in the archive: the fence allows none. */
  readonly completedTwice: number;
}

export interface FleetState {
  readonly counts: Counts;
  readonly workers: readonly FleetWorker[];
  /** By bucket, the place of its owner among `workers`; -1: nobody. */
  readonly owners: readonly number[];
  /** How many of `workers` are on the ring. */
  readonly owning: number;
  /** Of each key: how many jobs, and who ran them. */
  readonly keys: readonly {
    readonly key: string;
    readonly waiting: number;
    readonly by: readonly string[];
  }[];
  readonly moved: { readonly why: string; readonly share: number; readonly least: number } | null;
  readonly log: readonly string[];
}

export class Fleet implements Journey {
  readonly #stage: Stage;
  readonly #processes: Processes;
  #owners: readonly string[] = [];
  #members: readonly string[] = [];
  #moved: FleetState['moved'] = null;
  /** Since the last frame. */
  #lines: string[] = [];
  readonly #log: string[] = [];
  #burst = 0;

  constructor(stage: Stage, settings: Settings) {
    this.#stage = stage;
    this.#processes = new Processes(stage, {
      ...{ queue: QUEUE, worker: TIMES },
      restartMs: settings.restart === false ? null : RESTART_MS,
      onEvent: (name, event) => this.#heard(name, event),
      onProblem: (text) => this.#line(text),
    });
  }

  async begin(): Promise<void> {
    for (let n = 0; n < 3; n++) this.#processes.start(this.#processes.newName(), 20 * n);
    await this.#stage.clock.runUntil(1_000);
    this.#frame('Three workers are up and share the ring.');
  }

  async act(act: Act): Promise<void> {
    const said = this.#do(act);
    // What was asked for happens at once; its effects take their time.
    await this.#stage.clock.runUntil(this.#stage.now + 10);
    this.#frame(...said);
  }

  #do(act: Act): [string, Tone?] {
    const who = String(act.who ?? '');
    const key = String(act.key ?? 'order:9182');
    const processes = this.#processes;
    if (act.do === 'add') {
      if (this.#here().length >= MOST_PROCESSES)
        return [`${MOST_PROCESSES} workers are enough to see it.`, 'refused'];
      const name = processes.newName();
      processes.start(name);
      return [`${name} is started.`, 'good'];
    }
    if (act.do === 'enqueue') {
      const problem = problemOf(() => checkKey(key));
      if (problem) return [problem, 'refused'];
      processes.enqueue(key, { ms: 800 });
      return [`A job of ${key} is enqueued.`];
    }
    if (act.do === 'burst') {
      this.#burst++;
      for (let n = 0; n < BURST; n++)
        processes.enqueue(`order:${(n * 7 + this.#burst) % 20}`, { ms: 400 + 20 * (n % 20) });
      return [`${BURST} jobs of 20 keys are enqueued.`];
    }
    if (act.do === 'hot') {
      for (let n = 0; n < HOT; n++) processes.enqueue('tenant:123', { ms: 500 });
      return [`${HOT} jobs of one key: they run one after the other, in order.`];
    }
    if (act.do === 'shards') {
      for (let n = 0; n < HOT; n++)
        processes.enqueue(shardedKey('tenant:123', 8, { by: String(n) }), { ms: 500 });
      return [`The same ${HOT} jobs in 8 shards of the key: they run side by side.`];
    }
    if (act.do === 'poison') {
      processes.enqueue('order:666', { ms: 300, poison: true }, 1);
      return ['A poison job is enqueued: whoever runs it dies.', 'bad'];
    }
    const one = processes.named(who);
    if (!one || one.owner.dead || one.standing === 'stopped')
      return [`${who || 'Nobody'} is not running.`, 'refused'];
    if (act.do === 'kill') {
      processes.kill(who);
      return [`SIGKILL to ${who}.`, 'bad'];
    }
    if (act.do === 'freeze') {
      processes.freeze(who, FREEZE_MS);
      return [
        `${who} is frozen for ${seconds(FREEZE_MS)}: it keeps its lock and says nothing.`,
        'bad',
      ];
    }
    if (act.do === 'drain') {
      processes.stop(who);
      return [`SIGTERM to ${who}: it claims no more and finishes what it runs.`];
    }
    return [`“${act.do}” is nothing that can be done here.`, 'refused'];
  }

  async advance(ms: number): Promise<void> {
    const until = this.#stage.now + ms;
    while (this.#stage.now < until) {
      this.#lines = [];
      await this.#stage.clock.runUntil(Math.min(until, this.#stage.now + FRAME_MS));
      this.#frame(this.#lines.at(-1) ?? '', 'plain');
    }
  }

  #here() {
    return this.#processes.present.filter(({ standing }) => standing !== 'stopped');
  }

  #heard(name: string, event: WorkerEvent): void {
    if (event.kind === 'reregistered')
      this.#line(`${name} was declared dead and is back under a new id.`);
    else if (event.kind === 'lost') this.#line(`${name} learns that a job is no longer its own.`);
    else if (event.kind === 'claimed' && event.taken > 0)
      this.#line(`${name} takes over ${jobsText(event.taken)} of a worker that is gone.`);
    else if (event.kind === 'maintained' && event.recovered > 0)
      this.#line(`${name} recovers ${jobsText(event.recovered)}.`);
    else if (event.kind === 'stopped') this.#line(`${name} has drained and is gone.`);
    else if (event.kind === 'dead_letter') this.#line(`${name} makes a dead letter.`);
  }

  #line(text: string): void {
    this.#lines.push(text);
    this.#log.push(`${seconds(Math.round(this.#stage.now / 100) * 100)}: ${text}`);
    if (this.#log.length > MOST_LINES) this.#log.shift();
  }

  /** Who owns what, by the product's function, of those that the registry calls alive. */
  #readRing(): void {
    const members = this.#stage
      .look(`SELECT id FROM holdfast.workers WHERE status = 'alive' ORDER BY id COLLATE "C"`)
      .map(({ id }) => id as string);
    if (members.join() === this.#members.join()) return;
    const [before, was] = [this.#owners, this.#members];
    this.#owners = ringOwners(members);
    this.#members = members;
    if (Math.abs(members.length - was.length) !== 1 || was.length === 0) return;
    // Also those that nobody owns any more.
    const share = before.filter((id, bucket) => id !== this.#owners[bucket]).length / 1024;
    const why = members.length > was.length ? 'a worker joined' : 'a worker left';
    this.#moved = { why, share, least: 1 / Math.max(members.length, was.length) };
    this.#line(`${why}: ${Math.round(100 * share)} % of the buckets moved.`);
  }

  #frame(say: string, tone: Tone = 'plain'): void {
    this.#readRing();
    const keep = ({ name, count }: Sql) => count > 0 && !IDLE.test(name);
    this.#stage.frame(say, this.#state(), tone, keep);
  }

  #state(): FleetState {
    const { runs } = this.#processes;
    const workers = this.#here().map((one): FleetWorker => {
      const mine = runs.filter(({ by, from }) => by === one.name && from >= one.since);
      const id = one.ids.at(-1) ?? null;
      return {
        ...{ name: one.name, id, standing: one.standing },
        buckets: this.#owners.filter((owner) => owner === id).length,
        done: mine.filter(({ to }) => to !== null).length,
        running:
          one.standing === 'killed'
            ? []
            : mine.filter(({ to }) => to === null).map(({ job, key }) => ({ job, key })),
      };
    });
    const places = new Map(workers.map(({ id }, place) => [id, place]));
    const live = this.#stage
      .look(LIVE)
      .map(({ status, key, jobs }): Live => ({ status: status!, key: key!, jobs: Number(jobs) }));
    return {
      ...{ counts: this.#counts(runs, live), keys: this.#keys(runs, live) },
      ...{ workers, moved: this.#moved },
      owning: workers.filter(({ buckets }) => buckets > 0).length,
      owners: this.#owners.map((id) => places.get(id) ?? -1),
      log: [...this.#log],
    };
  }

  #counts(runs: readonly Run[], live: readonly Live[]): Counts {
    const [archive] = this.#stage.look(
      `SELECT count(*) AS rows, count(DISTINCT id) AS jobs FROM holdfast.${QUEUE}_archive`,
    );
    const done = Number(archive?.rows);
    const of = (status: string) =>
      live.reduce((sum, one) => sum + (one.status === status ? one.jobs : 0), 0);
    const [waiting, running, deadLetters] = [of('pending'), of('processing'), of('dead_letter')];
    const accepted = this.#processes.accepted.length;
    const ended = new Map<string, number>();
    for (const { job, to } of runs) if (to !== null) ended.set(job, (ended.get(job) ?? 0) + 1);
    return {
      ...{ accepted, waiting, running, deadLetters, done },
      completedTwice: done - Number(archive?.jobs),
      // An enqueue that has committed and is not confirmed yet is there and not counted.
      lost: Math.max(0, accepted - waiting - running - deadLetters - done),
      doubled: [...ended.values()].filter((times) => times > 1).length,
    };
  }

  /** Those with the most to do, and those that ran last. */
  #keys(runs: readonly Run[], live: readonly Live[]): FleetState['keys'] {
    const waiting = new Map<string, number>();
    for (const { key, status, jobs } of live)
      if (status !== 'dead_letter') waiting.set(key, (waiting.get(key) ?? 0) + jobs);
    const most = [...waiting].sort((a, b) => b[1] - a[1]).map(([key]) => key);
    const last = runs.slice(-30).map(({ key }) => key);
    const keys = [...new Set([...most, ...last.reverse()])].slice(0, MOST_KEYS);
    return keys.map((key) => ({
      ...{ key, waiting: waiting.get(key) ?? 0 },
      by: [...new Set(runs.filter((run) => run.key === key).map(({ by }) => by))].slice(-4),
    }));
  }
}

/** Beside the jobs' own statements: what says nothing of a job. */
const IDLE =
  /^(look_around|list_|view_fleet|watch_|ask_|BEGIN|COMMIT|SELECT|LISTEN|hold_|drop_|unhandled|schedule)/;
