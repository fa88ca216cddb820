/**
 * One run and what may happen to it, in an order that is drawn: its turns statement by statement, crashes, signals in
 * transactions that stay open, children that end in such, times that come, and a cancel with undo. What a lock holds up goes
 * on later, as in life. Returns what is broken.
 */
import type pg from 'pg';
import { childId } from '../../../packages/holdfast/src/enqueue/insert-children.js';
import { job, workflow } from '../../../packages/holdfast/src/index.js';
import { executor } from '../../../packages/holdfast/src/postgres/queryable.js';
import { askToUndo, send, wakeRuns } from '../../../packages/holdfast/src/workflow/rows/signal.js';
import { INBOX } from '../../support/database.js';
import type { Body, Run } from '../../support/runs.js';
import { type Attempt, claim, endChild, type Floor, takeTurn } from './attempts.js';
import { type Facts, type Sent, violationsOf } from './invariants.js';

export type Command =
  | { readonly do: 'advance' | 'zombie'; readonly which: number }
  | { readonly do: 'crash' | 'wake' | 'time' | 'cancel' }
  | { readonly do: 'send'; readonly name: 'a' | 'b'; readonly open: boolean }
  | { readonly do: 'end'; readonly which: number; readonly commit: boolean }
  | {
      readonly do: 'child';
      readonly which: number;
      readonly how: 'completed' | 'dead_letter' | 'cancelled';
      readonly open: boolean;
    };

export interface Plan {
  readonly children: number;
  readonly commands: readonly Command[];
}

/** So long a statement is waited for before the schedule goes on without it. */
const HELD_UP_MS = 12;
const ROUNDS = 60;
const WORKER = 'worker';

const model = workflow('model') as Run;
const kid = job<number>('kid');

const DID = 'INSERT INTO did (run, what) VALUES ($1, $2)';
const bodyOf =
  (children: number): Body =>
  async (flow) => {
    const heard: [string, unknown][] = [];
    const take = async (name: string, signals: string[], timeout?: string) => {
      const got = await (timeout
        ? flow.wait(name, signals, { timeout: timeout as '1h' })
        : flow.wait(name, signals));
      heard.push([name, got]);
    };
    const act = (name: string) =>
      flow.transaction(name, (tx) => tx.query(DID, [flow.id, name]).then(() => null), {
        undo: (tx) => tx.query(DID, [flow.id, `un${name}`]),
      });
    await act('reserve');
    await Promise.all([take('w1', ['a', 'b'], '1h'), take('w2', ['a'])]);
    const [ended] = await Promise.all([
      flow.children(
        'kids',
        kid,
        Array.from({ length: children }, (_, n) => n),
      ),
      take('w3', ['b'], '1h'),
      flow.step('label', () => 'L'),
    ]);
    await act('ship');
    await flow.sleep('cool off', '1h');
    return { heard, ended: ended.map(({ status }) => status) };
  };

interface Open {
  readonly client: pg.PoolClient;
  work: Promise<unknown>;
  readonly done: (committed: boolean) => void;
}

export class Interleaving {
  readonly #floor: Floor;
  readonly #plan: Plan;
  readonly #facts: Facts;
  #id = '';
  #live: Attempt | null = null;
  readonly #zombies: Attempt[] = [];
  readonly #open: Open[] = [];
  readonly #pending = new Set<Promise<unknown>>();
  readonly #broken: string[] = [];
  #clock = 0;

  constructor(floor: Floor, plan: Plan) {
    this.#floor = floor;
    this.#plan = plan;
    this.#facts = { children: plan.children, sent: [], endedAs: new Map(), wasCancelled: false };
  }

  async run(): Promise<string[]> {
    const { db } = this.#floor;
    this.#id = (await db.hf.enqueue(model, null)).id;
    for (const command of this.#plan.commands) await this.#do(command);
    for (const _ of [...this.#open]) await this.#end(0, true);
    await Promise.all(this.#pending);
    await this.#settleDown();
    this.#broken.push(...(await violationsOf(db, this.#id, this.#facts, 'at rest')));
    await this.#bringTheRest();
    for (const zombie of this.#zombies) {
      zombie.gate.openForEver();
      await this.#note(zombie);
    }
    this.#broken.push(...(await violationsOf(db, this.#id, this.#facts, 'in the end')));
    return this.#broken;
  }

  async #do(command: Command): Promise<void> {
    const { db, engine } = this.#floor;
    switch (command.do) {
      case 'advance':
        return this.#advance(command.which);
      case 'zombie': {
        const zombie = this.#zombies[command.which % Math.max(1, this.#zombies.length)];
        return zombie && this.#step(zombie, command.which);
      }
      case 'crash':
        await this.#wait(
          db.rows(
            `UPDATE holdfast.inbox SET lease_expires_at = clock_timestamp() WHERE id = $1 AND status = 'processing'`,
            [this.#id],
          ),
        );
        if (this.#live && !this.#live.isOver) this.#zombies.push(this.#live);
        this.#live = null;
        return;
      case 'wake':
        return this.#wait(wakeRuns(engine, INBOX, 100).catch(() => 0));
      case 'time':
        return this.#wait(this.#timeComes());
      case 'cancel':
        return this.#wait(this.#cancel());
      case 'send':
        return this.#send(command.name, command.open);
      case 'child':
        return this.#child(command.which, command.how, command.open);
      case 'end':
        return this.#end(command.which, command.commit);
    }
  }

  /** Until it is done, or held up by a lock. */
  async #wait(work: Promise<unknown>): Promise<void> {
    const done = work.then(
      () => undefined,
      (error) => void this.#broken.push(`unexpected: ${error.stack}`),
    );
    this.#pending.add(done);
    void done.then(() => this.#pending.delete(done));
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, HELD_UP_MS);
    });
    await Promise.race([done, late]);
    clearTimeout(timer);
  }

  async #advance(which: number): Promise<void> {
    if (this.#live && !this.#live.isOver) return this.#step(this.#live, which);
    // One worker: what it has lost and what it has now may meet in one statement.
    await this.#wait(
      claim(this.#floor.db.pool, this.#id, WORKER).then((claimed) => {
        if (!claimed) return;
        const of = { id: this.#id, workerId: WORKER, ...claimed };
        this.#live = takeTurn(this.#floor, of, model, bodyOf(this.#plan.children));
        void this.#note(this.#live);
      }),
    );
  }

  async #note(attempt: Attempt): Promise<void> {
    const broken = await attempt.ended.catch((error) => `a turn failed: ${error.stack}`);
    if (broken !== null && !this.#broken.includes(broken)) this.#broken.push(broken);
  }

  /** Lets one ask go, and waits until the turn asks again or is over. */
  async #step(attempt: Attempt, which: number): Promise<void> {
    const moved = attempt.gate.untilMoved(HELD_UP_MS);
    attempt.gate.let(which);
    await moved;
  }

  async #begin(work: (client: pg.PoolClient) => Promise<unknown>, done: Open['done']) {
    const client = await this.#floor.db.pool.connect();
    await client.query('BEGIN');
    const open: Open = { client, done, work: work(client) };
    this.#open.push(open);
    await this.#wait(open.work.catch(() => undefined));
  }

  async #end(which: number, commit: boolean): Promise<void> {
    const [open] = this.#open.splice(which % Math.max(1, this.#open.length), 1);
    if (!open) return;
    await this.#wait(
      open.work
        .then(
          () => commit,
          () => false,
        )
        .then(async (good) => {
          await open.client.query(good ? 'COMMIT' : 'ROLLBACK');
          open.client.release();
          open.done(good);
        }),
    );
  }

  async #send(name: string, open: boolean): Promise<void> {
    const n = this.#facts.sent.length;
    const sent: Sent = { n, name, there: !open, from: ++this.#clock, to: Number.POSITIVE_INFINITY };
    this.#facts.sent.push(sent);
    const signal = { run: this.#id, name, value: String(n), key: `k${n}`, now: !open };
    const done = (good: boolean) => {
      sent.there = good;
      if (good) sent.to = ++this.#clock;
    };
    if (open) return this.#begin((client) => send(executor(client), INBOX, signal), done);
    const gone = (error: { code?: unknown }) => {
      done(false);
      if (error.code !== 'RUN_GONE') throw error;
    };
    await this.#wait(send(this.#floor.engine, INBOX, signal).then(() => done(true), gone));
  }

  async #child(which: number, how: string, open: boolean): Promise<void> {
    const { children, endedAs } = this.#facts;
    const [group] = await this.#floor.db.rows<{ first: string }>(
      `SELECT value ->> 'first' AS first FROM holdfast.inbox_steps WHERE run_id = $1 AND kind = 'c'`,
      [this.#id],
    );
    const n = which % Math.max(1, children);
    if (!group || children === 0 || endedAs.has(n)) return;
    const id = childId(group.first, n);
    endedAs.set(n, how);
    if (open)
      await this.#begin(
        (client) => endChild(client, id, how),
        (good) => void (good || endedAs.delete(n)),
      );
    else await this.#wait(this.#deadlocked(() => endChild(this.#floor.db.pool, id, how)));
  }

  /** As the worker does: again. */
  async #deadlocked(work: () => Promise<unknown>): Promise<void> {
    await work().catch(() => work());
  }

  async #timeComes(): Promise<void> {
    await this.#floor.db.rows(
      `WITH due AS (UPDATE holdfast.inbox_steps SET due_at = clock_timestamp()
         WHERE run_id = $1 AND place IS NULL AND due_at IS NOT NULL RETURNING run_id)
       UPDATE holdfast.inbox SET available_at = clock_timestamp(), wait_until = NULL
       WHERE id = $1 AND status = 'pending' AND wait_until = available_at AND wait_until < '9999-12-31'`,
      [this.#id],
    );
  }

  async #cancel(): Promise<void> {
    const asked = await askToUndo(this.#floor.engine, INBOX, [this.#id], 'withdrawn');
    if (asked.length > 0) this.#facts.wasCancelled = true;
  }

  /** Nothing more comes from outside: the run goes on until it sleeps or has ended. */
  async #settleDown(): Promise<void> {
    for (let round = 0; round < ROUNDS; round++) {
      await wakeRuns(this.#floor.engine, INBOX, 100);
      if (!this.#live || this.#live.isOver) {
        this.#live = null;
        await this.#advance(0);
        // A claim that is only slow has not found that there is nothing to do.
        await Promise.all(this.#pending);
        if (!this.#live) return;
      }
      (this.#live as Attempt).gate.openForEver();
      await (this.#live as Attempt).ended.catch(() => undefined);
    }
    this.#broken.push('a run that is turned again and again');
  }

  async #isThere(): Promise<boolean> {
    const rows = await this.#floor.db.rows('SELECT FROM holdfast.inbox WHERE id = $1', [this.#id]);
    return rows.length > 0;
  }

  async #bringTheRest(): Promise<void> {
    for (let round = 0; round < 4 && (await this.#isThere()); round++) {
      for (const name of ['a', 'b', 'b']) await this.#send(name, false);
      for (let n = 0; n < this.#plan.children; n++) await this.#child(n, 'completed', false);
      await Promise.all(this.#pending);
      await this.#timeComes();
      await this.#settleDown();
    }
  }
}
