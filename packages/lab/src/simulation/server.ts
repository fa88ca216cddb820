/**
 * The simulated server: one PGlite, and sessions, locks and notifications on top of it.
 *
 * PGlite has a single session, and every statement on it is atomic. So what belongs to a session is kept here:
 * advisory locks that last, LISTEN, and the one transaction that may be open (other statements wait for its end).
 * Texts are changed for that when they are loaded (modelled.ts). The clock needs no change; see clock.ts. A planted bug is a further replacement of text.
 */
import type { PGlite } from '@electric-sql/pglite';
import { createQueue, ENGINE_SETTINGS, FUNCTIONS, loadText, migrate } from 'holdfast/internal';
import { type Clock, EPOCH, Owner } from './clock.js';
import { DIGEST, modelled } from './modelled.js';
import { type Answer, ask, askSimple } from './wire.js';

export interface Session {
  readonly pid: number;
  readonly owner: Owner;
  readonly locks: Set<string>;
  readonly channels: Set<string>;
  readonly notify: (channel: string, payload: string) => void;
  open: boolean;
  /** Messages on their way to the server. */
  pending: number;
  /** The client has gone; what it sent still arrives. */
  closing: boolean;
}

/** Changes the text of a statement: a planted bug. */
export type Rewrite = (text: string) => string;

/** What never changes in a simulation is asked once. */
const CONSTANT =
  /to_regclass|\.migrations\b|SELECT name FROM|concat\('holdfast_', '.*'::regclass::oid\) AS channel/;
const ADVISORY = /^SELECT pg_advisory_(lock|unlock)_shared\((.*), (\$\d::integer|0)\)/;
const LONGEST_TRANSACTION_MS = 5_000;

const TABLES = ['workers', 'inbox', 'inbox_claims', 'ordered', 'ordered_claims'];

const RESET = `DELETE FROM holdfast.workers; UPDATE holdfast.queues SET maintained_at = to_timestamp(${EPOCH / 1_000});
UPDATE holdfast.fleet SET epoch = 1;
${['inbox', 'ordered']
  .map(
    (queue) => `DELETE FROM holdfast.${queue}; DELETE FROM holdfast.${queue}_claims;
DELETE FROM holdfast.${queue}_archive; DELETE FROM holdfast.${queue}_effects;
DELETE FROM holdfast.${queue}_steps; DELETE FROM holdfast.${queue}_signals; DELETE FROM holdfast.${queue}_children;
DELETE FROM holdfast.${queue}_idempotency; SELECT setval('holdfast.${queue}_position_seq', 1, false);`,
  )
  .join('\n')}`;

export class Server {
  readonly #pglite: PGlite;
  readonly #constants = new Map<string, Answer>();
  readonly #tables = new Map<string, string>();
  #sessions = new Set<Session>();
  #pids = 0;
  #locksSet = '';
  #texts = new Map<string, string>();
  #rewrite: Rewrite = (text) => text;
  readonly #planted = new Map<string, string>();
  #transaction: { session: Session; since: number } | null = null;
  #owner = new Owner('server', 1);
  clock: Clock | null = null;
  /** Statements that reached Postgres. */
  executed = 0;

  /** On a PGlite of its own. It is migrated here, unless it was loaded with these tables. */
  static async open(pglite: PGlite): Promise<Server> {
    const settings = Object.entries(ENGINE_SETTINGS).map(
      ([name, value]) => `SET ${name} = '${value}'`,
    );
    await pglite.exec([...settings, "SET sim.locks = ''", 'SET track_counts = off'].join(';'));
    const queryable = {
      async query(text: string, params?: unknown[]) {
        if (params) return pglite.query<Record<string, unknown>>(text, params);
        const results = await pglite.exec(modelled(text));
        return (results.at(-1)?.rows ?? []) as Record<string, unknown>[];
      },
    };
    const { rows } = await pglite.query<{ digest: string | null }>(
      `SELECT obj_description(to_regnamespace('holdfast'), 'pg_namespace') AS digest`,
    );
    const digest = rows[0]?.digest ?? null;
    if (digest !== null && digest !== DIGEST)
      throw new Error('This database was made by other migrations; build the package again.');
    if (digest === null) {
      await migrate(queryable, 'holdfast');
      await createQueue(queryable, 'holdfast', 'ordered', { ordering: 'key' });
      await pglite.exec(`COMMENT ON SCHEMA holdfast IS '${DIGEST}'`);
    }
    return new Server(pglite);
  }

  constructor(pglite: PGlite) {
    this.#pglite = pglite;
    for (const table of ['inbox', 'ordered', 'fleet']) {
      const oid = this.rows(`SELECT 'holdfast.${table}'::regclass::oid::integer`)[0]?.[0] as string;
      this.#tables.set(table, oid);
      if (table !== 'fleet') askSimple(pglite, `LISTEN "holdfast_${oid}"`);
    }
    askSimple(pglite, 'LISTEN holdfast_fleet');
  }

  /** Whoever looks now would see what is not committed yet. */
  get inTransaction(): boolean {
    return this.#transaction !== null;
  }

  /** For the checks: rows of a query that is no part of the simulation. With parameters it is prepared once. */
  rows(text: string, params?: readonly unknown[]): (string | null)[][] {
    const { rows, error } = params
      ? ask(this.#pglite, text, params)
      : askSimple(this.#pglite, text);
    if (error) throw new Error(`${error.message} in: ${text}`);
    return rows;
  }

  /** A new schedule on empty tables. */
  begin(clock: Clock, rewrite: Rewrite): void {
    this.clock = null;
    if (this.#transaction) askSimple(this.#pglite, 'ROLLBACK');
    this.#transaction = null;
    this.#owner = new Owner('server', 1);
    this.#sessions = new Set();
    this.#pids = 0;
    this.#rewrite = rewrite;
    this.#texts = new Map();
    this.#plant();
    this.executed = 0;
    this.rows(RESET);
    // Where rows lie must not depend on earlier schedules: some statements return them in that order.
    for (const table of TABLES) this.rows(`VACUUM holdfast.${table}`);
    this.clock = clock;
  }

  /** Functions are loaded once; those that a bug changes are replaced, and put back by the next schedule. */
  #plant(): void {
    for (const queue of ['inbox', 'ordered'])
      for (const { text } of FUNCTIONS) {
        const own = modelled(loadText(text, { schema: 'holdfast', queue }));
        const wanted = this.#rewrite(own);
        if (wanted === (this.#planted.get(own) ?? own)) continue;
        this.#planted.set(own, wanted);
        this.rows(wanted);
      }
  }

  connect(owner: Owner, notify: Session['notify']): Session {
    const session = {
      pid: ++this.#pids,
      owner,
      notify,
      open: true,
      pending: 0,
      closing: false,
      locks: new Set<string>(),
      channels: new Set<string>(),
    };
    this.#sessions.add(session);
    return session;
  }

  /** Its locks are free, and its transaction never was. */
  disconnect(session: Session): void {
    session.open = false;
    this.#sessions.delete(session);
    if (this.#transaction?.session === session) {
      askSimple(this.#pglite, 'ROLLBACK');
      this.#transaction = null;
    }
  }

  /** The client closes the connection: behind what it has sent. */
  leave(session: Session): void {
    session.closing = true;
    if (session.pending === 0) this.disconnect(session);
  }

  /** The process is gone: what it has sent still arrives, and then its sessions end. */
  hangUp(owner: Owner, inMs: number): void {
    (this.clock as Clock).at(this.#owner, inMs, () => {
      for (const session of [...this.#sessions]) if (session.owner === owner) this.leave(session);
    });
  }

  /** Handles a message when it has arrived; while another's transaction is open, it waits. */
  arrive(inMs: number, session: Session, handle: () => void): void {
    const clock = this.clock as Clock;
    session.pending++;
    const go = (): void => {
      if (!session.open) return;
      const open = this.#transaction;
      if (open && open.session !== session) {
        if (clock.now - open.since > LONGEST_TRANSACTION_MS) this.disconnect(open.session);
        clock.at(this.#owner, 0.5, go);
      } else {
        handle();
        session.pending--;
        if (session.closing && session.pending === 0) this.disconnect(session);
      }
    };
    clock.at(this.#owner, inMs, go);
  }

  execute(session: Session, text: string, params: readonly unknown[], describe: boolean): Answer {
    const answer = this.#own(session, text, params) ?? this.#constant(text, params, describe);
    if (answer) return answer;
    this.executed++;
    this.#tellLocks();
    const known = this.#texts.get(text) ?? this.#rewrite(modelled(text));
    this.#texts.set(text, known);
    const simple = params.length === 0 && /;|^(BEGIN|COMMIT|ROLLBACK)/.test(text);
    const result = this.#outside(() =>
      simple ? askSimple(this.#pglite, known) : ask(this.#pglite, known, params, describe),
    );
    if (/^BEGIN/.test(text)) this.#transaction = { session, since: (this.clock as Clock).now };
    else if (/^(COMMIT|ROLLBACK)/.test(text)) this.#transaction = null;
    for (const { channel, payload } of result.notifications) this.#publish(channel, payload);
    return result;
  }

  /** Timers that Postgres sets for itself have no place in the simulation. */
  #outside(work: () => Answer): Answer {
    const clock = this.clock as Clock;
    const { current } = clock;
    clock.current = null;
    try {
      return work();
    } finally {
      clock.current = current;
    }
  }

  #constant(text: string, params: readonly unknown[], describe: boolean): Answer | null {
    if (!CONSTANT.test(text)) return null;
    const key = JSON.stringify([text, params, describe]);
    let answer = this.#constants.get(key);
    if (!answer) {
      answer = this.#outside(() => ask(this.#pglite, text, params, describe));
      this.#constants.set(key, answer);
    }
    return { ...answer, rows: answer.rows.map((row) => [...row]) };
  }

  /** What belongs to the session. */
  #own(session: Session, text: string, params: readonly unknown[]): Answer | null {
    const lock = ADVISORY.exec(text);
    if (lock) {
      const table = /'holdfast\.(\w+)'|"holdfast"\."(\w+)"/.exec(lock[2] as string);
      const oid = this.#tables.get((table?.[1] ?? table?.[2]) as string);
      const name = table ? `${oid}:${params[0] ?? lock[3]}` : params.join(':');
      const held = session.locks.has(name);
      if (lock[1] === 'lock') session.locks.add(name);
      else session.locks.delete(name);
      return one(lock[1] === 'lock' ? '' : held ? 't' : 'f');
    }
    if (/^SELECT pg_backend_pid/.test(text))
      return { ...one(String(session.pid)), fields: ['pid'] };
    if (/^LISTEN/.test(text)) {
      for (const [, channel] of text.matchAll(/LISTEN "([^"]+)"/g))
        session.channels.add(channel as string);
      return one('');
    }
    if (/^SELECT (1$|set_config\('idle_session)/.test(text)) return one('1');
    return null;
  }

  #tellLocks(): void {
    const locks = [...new Set([...this.#sessions].flatMap((session) => [...session.locks]))]
      .sort()
      .join(',');
    if (locks === this.#locksSet) return;
    this.#outside(() => askSimple(this.#pglite, `SET sim.locks = '${locks}'`));
    this.#locksSet = locks;
  }

  #publish(channel: string, payload: string): void {
    for (const session of this.#sessions) {
      if (session.channels.has(channel)) session.notify(channel, payload);
    }
  }
}

const one = (value: string): Answer => ({
  fields: ['one'],
  rows: [[value]],
  notifications: [],
  error: null,
  tag: 'SELECT 1',
});
