/**
 * What the keeper's thread does: heartbeats, lease renewal, the liveness lock and the watch over others, one by one on one
 * connection; behind a pooler there is a second, direct one for the lock and the watch. When the main thread has made no
 * tick for `stallMs`, all of this stops until it ticks again, and the fleet takes over. By the last confirmed heartbeat,
 * in shared memory, the main thread knows whether it may have been declared dead; so after a freeze the check comes first.
 */
import { UNIT_MS } from '../../job/options/duration.js';
import type { Address } from '../../postgres/connect/address.js';
import { LAST_MS } from '../../postgres/connect/backoff.js';
import { CHECK_MS } from '../time.js';
import { Connection } from './connection.js';
import { Leases } from './leases.js';
import { passwords } from './passwords.js';
import {
  type Attempts,
  confirmedAgoMs,
  type FromKeeper,
  type KeeperSetup,
  type Load,
  monotonicMs,
  SLOT,
  type Tell,
  type ToKeeper,
} from './protocol.js';
import { type Task, Tasks } from './tasks.js';
import { Watch } from './watch.js';

export interface KeeperPort {
  postMessage(message: FromKeeper): void;
  on(event: 'message', listener: (message: ToKeeper) => void): void;
  close(): void;
}

/** Runs until a message says stop. */
export class KeeperWork {
  readonly #port: KeeperPort;
  readonly #setup: KeeperSetup;
  readonly #shared: BigInt64Array;
  readonly #leases: Leases;
  readonly #passwords: ReturnType<typeof passwords>;
  readonly #recent: RecentAttempts;
  readonly #connections: Connection[];
  readonly #tasks: Tasks[];
  readonly #checks: NodeJS.Timeout;
  readonly #main: { ticks: number; tickedAt: number; checkedAt: number };
  #locks: boolean;
  #workerId: string;
  #load: string;
  #dead = false;
  #stalled = false;

  constructor(port: KeeperPort, setup: KeeperSetup) {
    this.#port = port;
    this.#setup = setup;
    this.#shared = new BigInt64Array(setup.shared);
    this.#locks = setup.livenessLock && (!setup.pooled || setup.direct !== null);
    this.#workerId = setup.workerId;
    const now = monotonicMs();
    this.#main = { ticks: this.#ticksOfMain(), tickedAt: now, checkedAt: now };
    this.#load = setup.load;
    this.#checks = setInterval(() => this.#checkMain(), CHECK_MS).unref();
    this.#leases = new Leases({ ...setup, workerId: () => this.#workerId, tell: this.#tell });
    this.#passwords = passwords(this.#tell);
    this.#recent = new RecentAttempts((JSON.parse(setup.load) as Load).attempts, now);
    const renew: Task = {
      what: 'renewing leases',
      run: async (db) => ((await this.#leases.renew(db)) ? 0 : setup.renewMs / 4),
    };
    const own = this.#connectionTo(setup.address, setup.pooled);
    this.#connections = [own];
    const check = this.#checkOn(own, { lock: !setup.pooled, beat: true });
    this.#tasks = [this.#tasksOn(own, [check, renew])];
    if (this.#locks && setup.pooled) {
      const direct = this.#connectionTo(setup.direct as Address, false);
      this.#connections.push(direct);
      const watch = this.#checkOn(direct, { lock: true, beat: false });
      this.#tasks.push(this.#tasksOn(direct, [watch]));
    }
    if (!this.#locks) this.#tell('watched');
    port.on('message', (message) => this.#receive(message));
    this.#tell('ready');
  }

  #tell: Tell = (kind, ...args) => this.#port.postMessage({ kind, args });

  #ticksOfMain(): number {
    return Number(Atomics.load(this.#shared, SLOT.ticks));
  }

  #metadata(): object {
    const { running, held, attempts, trouble } = JSON.parse(this.#load) as Load;
    const failed = Object.fromEntries(
      Object.entries(attempts).map(([queue, ended]) => [queue, ended.failed]),
    );
    const recent = this.#recent.report(attempts, monotonicMs());
    return { ...this.#setup.metadata, load: { running, held, failed, recent, ...trouble } };
  }

  #receive(message: ToKeeper): void {
    const { kind } = message;
    if (kind === 'hold') this.#leases.hold(message.batch);
    else if (kind === 'held') this.#leases.held(message.batches);
    else if (kind === 'identity') this.#identify(message.workerId);
    else if (kind === 'load') this.#load = message.load;
    else if (kind === 'password') this.#passwords.answer(message.ask, message.answer);
    else void this.#stop();
  }

  #report = (what: string, error: unknown): void => {
    const { code } = error as { code?: unknown };
    const message = error instanceof Error ? error.message : String(error);
    this.#tell('failed', what, message, typeof code === 'string' ? code : null);
  };

  #lockIsOff(): void {
    this.#locks = false;
    this.#report(
      'holding the liveness lock',
      'The liveness lock is off, because the connection goes through a pooler and has no session of its ' +
        'own. If this process is killed, the others notice by its heartbeats only, after the TTL. ' +
        'Name a direct connection as listenUrl.',
    );
    this.#tell('watched');
  }

  /** A main thread that made no tick for `stallMs` is stalled. A freeze of the whole process is no stall. */
  #checkMain(): void {
    const { stallMs } = this.#setup;
    const main = this.#main;
    const now = monotonicMs();
    const ticks = this.#ticksOfMain();
    // Checks that lie much further apart: this thread was frozen, too.
    if (ticks !== main.ticks || now - main.checkedAt > 3 * CHECK_MS) main.tickedAt = now;
    main.ticks = ticks;
    main.checkedAt = now;
    const before = this.#stalled;
    this.#stalled = now - main.tickedAt > stallMs;
    if (!this.#stalled || before) return;
    const text = `no turn of the event loop for ${stallMs} ms: leases and heartbeat were given up`;
    this.#report('the main thread made no progress', text);
  }

  /** A dead worker waits for its new id, a stalled one for its main thread. */
  #paused(): boolean {
    this.#checkMain();
    return this.#stalled || this.#dead;
  }

  #declaredDead(id: string): void {
    if (id !== this.#workerId || this.#dead) return;
    this.#dead = true;
    this.#leases.clear();
    this.#tell('dead', id);
  }

  #confirmed(id: string, sentAt: number): void {
    if (id !== this.#workerId) return;
    Atomics.store(this.#shared, SLOT.confirmedAt, BigInt(Math.floor(sentAt)));
    this.#tell('beat', id);
  }

  #connectionTo(to: Address, pooled: boolean): Connection {
    const { leaseMs, ttlMs, prepare, schema, asksPasswords } = this.#setup;
    const address = asksPasswords ? this.#passwords.askedBy(to) : to;
    const thirdMs = Math.floor(Math.min(leaseMs, ttlMs) / 3);
    return new Connection({
      ...{ address, pooled, prepare, names: { schema, queue: 'inbox' } },
      timeoutMs: Math.max(CHECK_MS, thirdMs),
      locks: () => this.#locks && !pooled,
      foundPooler: () => this.#lockIsOff(),
    });
  }

  /** A check that takes the lock judges others by theirs; one that beats is the heartbeat. */
  #checkOn(connection: Connection, does: { lock: boolean; beat: boolean }): Task {
    const { schema, queues, heartbeatMs } = this.#setup;
    const watch = new Watch({
      connection,
      names: { schema, queue: queues[0] as string },
      heartbeatMs,
      locks: () => this.#locks && does.lock,
      workerId: () => this.#workerId,
      metadata: () => this.#metadata(),
      confirmedAgoMs: () => (does.beat ? confirmedAgoMs(this.#shared) : 0),
      confirmed: (id, sentAt) => this.#confirmed(id, sentAt),
      declaredDead: (id) => this.#declaredDead(id),
      tell: this.#tell,
    });
    return { what: 'heartbeat and watch', run: (db) => watch.check(db) };
  }

  #tasksOn(connection: Connection, tasks: Task[]): Tasks {
    return new Tasks({ connection, tasks, paused: () => this.#paused(), error: this.#report });
  }

  async #stop(): Promise<void> {
    clearInterval(this.#checks);
    for (const one of this.#tasks) one.stop();
    await Promise.all(this.#connections.map((one) => one.close(LAST_MS)));
    this.#port.close();
  }

  /** Be seen at once under the new id: the registration may have waited longer than a TTL. */
  #identify(id: string): void {
    this.#workerId = id;
    this.#dead = false;
    this.#leases.clear();
    for (const one of this.#tasks) one.runNow();
  }
}

type Counted = { readonly at: number; readonly attempts: Load['attempts'] };

/** How the attempts of about the last minute ended, by queue: so one reading of the registry says whether most fail. */
export class RecentAttempts {
  #counted: Counted[];

  constructor(attempts: Load['attempts'], at: number) {
    this.#counted = [{ at, attempts }];
  }

  /** Returns the attempts of so many milliseconds, by queue; one without any is left out. */
  report(attempts: Load['attempts'], at: number) {
    // The newest of those that are a minute old is where the minute begins.
    const begins = this.#counted.findLastIndex((one) => at - one.at >= UNIT_MS.m);
    this.#counted = [...this.#counted.slice(Math.max(0, begins)), { at, attempts }];
    const first = this.#counted[0] as Counted;
    const ended = Object.entries(attempts).map(([queue, now]): [string, Attempts] => {
      const { failed, completed } = first.attempts[queue] as Attempts;
      return [queue, { failed: now.failed - failed, completed: now.completed - completed }];
    });
    return {
      ms: Math.round(at - first.at),
      queues: Object.fromEntries(ended.filter(([, one]) => one.failed + one.completed > 0)),
    };
  }
}
