/**
 * What the keeper's thread does: heartbeats, renewals, the liveness lock and the watch over others, one by one on one
 * connection; behind a pooler a second, direct one has the lock and the watch. When the main thread has made no tick
 * for `stallMs`, all of this stops until it ticks again. Shared memory says when the last confirmed heartbeat was sent, so
 * the main thread knows whether it may be dead.
 */
import { randomUUID } from 'node:crypto';
import type { Address } from '../../postgres/connect/address.js';
import { LAST_MS } from '../../postgres/connect/backoff.js';
import { CHECK_MS } from '../time.js';
import { type Connection, newConnection } from './connection.js';
import { newLeases } from './leases.js';
import {
  confirmedAgoMs,
  type FromKeeper,
  type KeeperSetup,
  type Load,
  monotonicMs,
  type PasswordAnswer,
  SLOT,
  type Tell,
  type ToKeeper,
} from './protocol.js';
import { newRecentAttempts, newRecentStarts } from './recent.js';
import { startTasks, type Task } from './tasks.js';
import { newWatch } from './watch.js';

type Receive = {
  readonly [Kind in ToKeeper['kind']]: (of: Extract<ToKeeper, { kind: Kind }>) => unknown;
};

interface KeeperPort {
  postMessage(message: FromKeeper): void;
  on(event: 'message', listener: (message: ToKeeper) => void): void;
  close(): void;
}

/** Runs until it is told to stop. */
export function startKeeper(port: KeeperPort, setup: KeeperSetup): void {
  const { schema, heartbeatMs, stallMs } = setup;
  const shared = new BigInt64Array(setup.shared);
  let locks = setup.livenessLock && (!setup.pooled || setup.direct !== null);
  let { workerId, load } = setup;
  let dead = false;

  const tell: Tell = (kind, ...args) => port.postMessage({ kind, args });
  const report = (what: string, error: unknown): void => {
    const { code } = error as { code?: unknown };
    const message = error instanceof Error ? error.message : String(error);
    tell('failed', what, message, typeof code === 'string' ? code : null);
  };
  const isStalled = watchMain(shared, stallMs, report);
  const leases = newLeases({ ...setup, workerId: () => workerId, tell });
  const asked = passwords(tell);
  const first = JSON.parse(load) as Load;
  const recent = newRecentAttempts(first.attempts, monotonicMs());
  const starts = newRecentStarts(first.queues, monotonicMs());

  function metadata(): object {
    const { running, held, attempts, trouble, queues } = JSON.parse(load) as Load;
    const failed = Object.fromEntries(
      Object.entries(attempts).map(([queue, ended]) => [queue, ended.failed]),
    );
    const now = monotonicMs();
    const lately = { recent: recent(attempts, now), queues: starts(queues, now) };
    return { ...setup.metadata, load: { running, held, failed, ...lately, ...trouble } };
  }

  function foundPooler(): void {
    locks = false;
    report(
      'holding the liveness lock',
      'The liveness lock is off, because the connection goes through a pooler and has no session of its ' +
        'own. If this process is killed, the others notice by its heartbeats only, after the TTL. ' +
        'Name a direct connection as listenUrl.',
    );
    tell('watched');
  }

  function connectionTo(to: Address, pooled: boolean): Connection {
    const { leaseMs, ttlMs, prepare, asksPasswords } = setup;
    const address = asksPasswords ? asked.askedBy(to) : to;
    const thirdMs = Math.floor(Math.min(leaseMs, ttlMs) / 3);
    return newConnection({
      ...{ address, pooled, prepare, names: { schema, queue: 'inbox' }, foundPooler },
      timeoutMs: Math.max(CHECK_MS, thirdMs),
      locks: () => locks && !pooled,
    });
  }

  /** A check that takes the lock judges others by theirs; one that beats is the heartbeat. */
  function checkOn(connection: Connection, does: { lock: boolean; beat: boolean }): Task {
    const run = newWatch({
      ...{ connection, heartbeatMs, metadata, tell },
      names: { schema, queue: setup.queues[0] as string },
      locks: () => locks && does.lock,
      workerId: () => workerId,
      confirmedAgoMs: () => (does.beat ? confirmedAgoMs(shared) : 0),
      confirmed(id, sentAt) {
        if (id !== workerId) return;
        Atomics.store(shared, SLOT.confirmedAt, BigInt(Math.floor(sentAt)));
        tell('beat', id);
      },
      declaredDead(id) {
        if (id !== workerId || dead) return;
        dead = true;
        leases.clear();
        tell('dead', id);
      },
    });
    return { what: 'heartbeat and watch', run };
  }

  // A stalled worker waits for its main thread, a dead one for its new id.
  const paused = () => isStalled() || dead;
  const lines = [setup.address, ...(locks && setup.pooled ? [setup.direct as Address] : [])].map(
    (address, index) => {
      const own = index === 0;
      const connection = connectionTo(address, own && setup.pooled);
      const check = checkOn(connection, { lock: !own || !setup.pooled, beat: own });
      const renew: Task = {
        what: 'renewing leases',
        run: async (db) => ((await leases.renew(db)) ? 0 : setup.renewMs / 4),
      };
      const tasks = own ? [check, renew] : [check];
      return { connection, tasks: startTasks({ connection, tasks, paused, error: report }) };
    },
  );
  if (!locks) tell('watched');

  const receive: Receive = {
    hold: ({ batch }) => leases.hold(batch),
    held: ({ batches }) => leases.held(batches),
    /** Be seen at once under the new id: the registration may have waited longer than a TTL. */
    identity(message) {
      workerId = message.workerId;
      dead = false;
      leases.clear();
      for (const { tasks } of lines) tasks.runNow();
    },
    load(message) {
      load = message.load;
    },
    password: ({ ask, answer }) => asked.answer(ask, answer),
    async stop() {
      isStalled.stop();
      for (const { tasks } of lines) tasks.stop();
      await Promise.all(lines.map(({ connection }) => connection.close(LAST_MS)));
      port.close();
    },
  };
  port.on('message', (message) => receive[message.kind](message as never));
  tell('ready');
}

/**
 * Passwords for connections, where the caller gave a function: it stays in the main thread, and this thread asks at every
 * connect. While the main thread is blocked, the connect runs into its time limit and is tried again.
 */
function passwords(tell: Tell) {
  const asked = new Map<string, (answer: PasswordAnswer) => void>();
  return {
    askedBy(address: Address): Address {
      const password = async (of: object = {}): Promise<string> => {
        const { host, port, user, database } = of as Record<string, unknown>;
        const ask = randomUUID();
        const answer = await new Promise<PasswordAnswer>((resolve) => {
          asked.set(ask, resolve);
          tell('passwordAsked', ask, { host, port, user, database });
        });
        if ('refused' in answer) throw new Error(answer.refused);
        return answer.password as string;
      };
      return { ...address, password: password as () => Promise<string> };
    },
    answer(ask: string, answer: PasswordAnswer): void {
      asked.get(ask)?.(answer);
      asked.delete(ask);
    },
  };
}

/** Whether the main thread made no tick for `stallMs`. A freeze of the whole process is no stall. */
function watchMain(
  shared: BigInt64Array,
  stallMs: number,
  report: (what: string, error: unknown) => void,
) {
  let ticks = Atomics.load(shared, SLOT.ticks);
  let tickedAt = monotonicMs();
  let checkedAt = tickedAt;
  let stalled = false;
  const check = (): boolean => {
    const at = monotonicMs();
    const ticksNow = Atomics.load(shared, SLOT.ticks);
    // Checks that lie much further apart: this thread was frozen, too.
    if (ticksNow !== ticks || at - checkedAt > 3 * CHECK_MS) tickedAt = at;
    [ticks, checkedAt] = [ticksNow, at];
    const before = stalled;
    stalled = at - tickedAt > stallMs;
    const text = `no turn of the event loop for ${stallMs} ms: leases and heartbeat were given up`;
    if (stalled && !before) report('the main thread made no progress', text);
    return stalled;
  };
  const timer = setInterval(check, CHECK_MS).unref();
  return Object.assign(check, { stop: () => clearInterval(timer) });
}
