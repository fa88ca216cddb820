/**
 * Journey 7: a checkout, which is a workflow, is crashed at every statement: once just before it arrives and once right
 * after it was carried out. Two real workers of the product run on virtual time; one is killed, the other goes on. Every
 * crash has a checkout of its own, and what happened is compared with one that nobody disturbed.
 */
import { bucketOf } from 'holdfast';
import { insert, sendSignal } from 'holdfast/internal';
import type { Owner } from '../simulation/clock.js';
import { type MessageFault, Network } from '../simulation/network.js';
import type { Act, Journey, RowText, Settings, Tone } from './frame.js';
import { Processes } from './processes.js';
import { checkout, EFFECTS, type EffectName, Shop, type Tally } from './shop.js';
import { NAMES, type Stage } from './stage.js';

const WORKER = {
  ...{ heartbeat: 2_000, ttl: 6_000, lease: 9_000, maintenance: 2_000 },
  ...{ poll: 1_000, grace: 4_000 },
} as const;
const RESTART_MS = 500;
const LOOK_MS = 100;
/** A run that has not ended by then never ends. */
const LONGEST_MS = 60_000;

const APPROVED = { name: 'approved', value: '{"by": "kim"}', key: 'decision', now: true } as const;

/** Statements that are about a run, and not about the worker that has it. */
const OF_RUN =
  /^(load_|record_step|note_progress|suspend|complete|fail$|dead_letter|open_children|insert_children|BEGIN|COMMIT|INSERT INTO)/;

/** Of a text without a name the simulation knows only how it begins. */
function shown(statement: string): string {
  if (statement.startsWith('BEGIN')) return 'BEGIN';
  if (statement.startsWith('INSERT INTO shop')) return 'INSERT INTO shop';
  return statement.startsWith('INSERT INTO') ? 'insert_children' : statement;
}

/** Where a worker is killed: at the n-th statement of a checkout, counted from 1. */
interface Point {
  readonly nth: number;
  readonly when: 'before' | 'after';
}
export interface Crashed extends Point {
  /** Null: it had fewer statements than the undisturbed one. */
  readonly statement: string | null;
  /** Effects that happened more often, or more rarely, than undisturbed. */
  readonly wrong: readonly EffectName[];
}
export interface CheckoutState {
  readonly possible: readonly string[];
  readonly keyed: boolean;
  readonly fails: boolean;
  /** The statements of the checkout that nobody disturbed. */
  readonly statements: readonly string[];
  readonly tally: Tally;
  readonly usual: Tally;
  readonly run: RowText | null;
  readonly steps: readonly RowText[];
  readonly crashed: readonly Crashed[];
  readonly points: number;
}

/** Kills whoever sends the statement that it waits for. */
class Killer extends Network {
  readonly #kill: (owner: Owner) => void;
  seen: string[] = [];
  point: Point | null = null;
  killed: { readonly by: string; readonly statement: string } | null = null;

  constructor(kill: (owner: Owner) => void) {
    super([], false, () => undefined);
    this.#kill = kill;
  }

  begin(point: Point | null): void {
    this.seen = [];
    this.point = point;
    this.killed = null;
  }

  override befalls(owner: Owner, statement: string): MessageFault | null {
    if (!owner.name.startsWith('worker') || !OF_RUN.test(statement)) return null;
    this.seen.push(shown(statement));
    if (!this.point || this.killed || this.seen.length !== this.point.nth) return null;
    this.killed = { by: owner.name, statement: shown(statement) };
    const { when } = this.point;
    if (when === 'before') this.#kill(owner);
    const kind = when === 'before' ? 'cut before' : 'last word';
    return { kind, owner: owner.name, statement, nth: 1, ms: 0 };
  }
}

export class Checkout implements Journey {
  readonly #stage: Stage;
  readonly #processes: Processes;
  readonly #network: Killer;
  readonly #shop: Shop;
  readonly #keyed: boolean;
  readonly #fails: boolean;
  #statements: readonly string[] = [];
  #usual: Tally | null = null;
  /** How the undisturbed one did. */
  #ended = '';
  #run = '';
  readonly #crashed: Crashed[] = [];

  constructor(stage: Stage, settings: Settings) {
    this.#stage = stage;
    this.#keyed = settings.keys !== false;
    this.#fails = settings.fails === true;
    this.#shop = new Shop(stage, this.#keyed);
    this.#processes = new Processes(stage, {
      ...{ queue: NAMES.queue, worker: WORKER, restartMs: RESTART_MS },
      also: (worker) => this.#shop.handle(worker),
      onEvent: () => undefined,
      onProblem: (text) => this.#say(text, 'bad'),
    });
    this.#network = new Killer((owner) => stage.onKill(owner));
    stage.network = this.#network;
  }

  async begin(): Promise<void> {
    for (let n = 0; n < 2; n++) this.#processes.start(this.#processes.newName(), 20 * n);
    await this.#stage.clock.runUntil(1_000);
    this.#ended = await this.#checkout(null);
    this.#statements = this.#network.seen;
    this.#usual = this.#shop.tally(this.#run);
    this.#say(
      `A checkout that nobody disturbs: ${this.#statements.length} statements, and it is ${this.#ended}.`,
      'good',
    );
  }

  async act(act: Act): Promise<void> {
    const all = this.#points();
    const next = this.#crashed.length;
    if (act.do === 'crash') {
      const point = all.find(({ nth, when }) => nth === Number(act.nth) && when === act.when);
      if (point) return this.#crash(point);
    } else if (act.do === 'next' && all[next]) return this.#crash(all[next]);
    else if (act.do === 'part') {
      const until = Math.round((all.length * (Number(act.n) + 1)) / Number(act.of));
      for (const point of all.slice(next, until)) await this.#crash(point);
      if (next < until && until === all.length) this.#sum();
      return;
    }
    this.#say(`“${act.do}” does not fit now, so nothing ran.`, 'refused');
  }

  async advance(ms: number): Promise<void> {
    await this.#stage.clock.runUntil(this.#stage.now + ms);
    this.#say('Nothing ran.');
  }

  #points(): Point[] {
    return this.#statements.flatMap((_, place): Point[] => [
      { nth: place + 1, when: 'before' },
      { nth: place + 1, when: 'after' },
    ]);
  }

  async #crash(point: Point): Promise<void> {
    const ended = await this.#checkout(point);
    const [tally, usual] = [this.#shop.tally(this.#run), this.#usual as Tally];
    const wrong = EFFECTS.filter((name) => tally[name].happened !== usual[name].happened);
    const struck = this.#network.killed;
    this.#crashed.push({ ...point, statement: struck?.statement ?? null, wrong });
    const where = point.when === 'before' ? 'before' : 'right after';
    const killed = struck
      ? `${struck.by} is killed ${where} ${struck.statement}`
      : 'It had fewer statements this time, so nobody was killed';
    const again = EFFECTS.filter((name) => tally[name].ran > usual[name].ran);
    const ran = again.length > 0 ? ` Ran again: ${again.join(', ')}.` : '';
    const counts = wrong.map((name) => `${name} ${tally[name].happened} times`);
    if (wrong.length === 0 && ended === this.#ended)
      return this.#say(
        `${killed}. It is ${ended}, and each effect happened as usual.${ran}`,
        'good',
      );
    this.#say(`${killed}. It is ${ended}, with ${counts.join(', ') || 'nothing twice'}.`, 'bad');
  }

  #sum(): void {
    const wrong = this.#crashed.filter((one) => one.wrong.length > 0).length;
    const crashes = `${this.#crashed.length} checkouts, each crashed at another place`;
    if (wrong === 0)
      this.#say(`${crashes}: nothing happened twice, and nothing was left out.`, 'good');
    else
      this.#say(
        `${crashes}: ${wrong} of them did something twice. That is what the key of a step is for.`,
        'bad',
      );
  }

  /** A checkout from its enqueue to its end. Returns how it ended. */
  async #checkout(point: Point | null): Promise<string> {
    const { clock } = this.#stage;
    this.#network.begin(point);
    const id = this.#stage.newId();
    this.#run = id;
    this.#enqueue(id);
    let asked = false;
    for (const until = clock.now + LONGEST_MS; clock.now < until; ) {
      await clock.runUntil(clock.now + LOOK_MS);
      while (this.#stage.server.inTransaction) await clock.step();
      const { status } = this.#row() ?? {};
      if (status === 'completed') return this.#settled('completed');
      if (status === 'dead_letter') return this.#settled('undone');
      if (asked || !this.#waits()) continue;
      asked = true;
      this.#processes.produce((db) => sendSignal(db, NAMES, { run: id, ...APPROVED }));
    }
    return 'stuck';
  }

  /** The killed worker is back before the next checkout. */
  async #settled(ended: string): Promise<string> {
    const isUp = () => this.#processes.present.every(({ standing }) => standing === 'alive');
    const { clock } = this.#stage;
    for (const until = clock.now + LONGEST_MS; clock.now < until && !isUp(); )
      await clock.runUntil(clock.now + LOOK_MS);
    return ended;
  }

  #enqueue(id: string): void {
    const key = `order:${9_182 + this.#crashed.length}`;
    const row = {
      ...{
        id,
        key,
        type: checkout.type,
        version: 1,
        bucket: bucketOf(key),
        headers: null,
        priority: 2,
      },
      ...{
        payload: JSON.stringify({ fails: this.#fails }),
        maxAttempts: 5,
        delayMs: 0,
        runAt: null,
      },
      ...{ idempotencyKey: null, unique: null, group: null, limitKey: null },
    };
    this.#processes.produce((db) => insert(db, NAMES, [row]));
  }

  #row(): RowText | null {
    const columns = 'id, type, status, attempts, crashes, lease_generation, last_error';
    const [row] = this.#stage.look(
      `SELECT ${columns} FROM holdfast.inbox WHERE id = $1::uuid
      UNION ALL SELECT ${columns.replace('crashes', 'NULL AS crashes')} FROM holdfast.inbox_archive WHERE id = $1::uuid`,
      [this.#run],
    );
    return row ?? null;
  }

  #waits(): boolean {
    const open = `SELECT 1 AS n FROM holdfast.inbox_steps WHERE run_id = $1::uuid AND name = 'approval' AND place IS NULL`;
    return this.#stage.look(open, [this.#run]).length > 0;
  }

  #say(text: string, tone: Tone = 'plain'): void {
    const steps = this.#stage.look(
      'SELECT name, kind::text, place, value FROM holdfast.inbox_steps WHERE run_id = $1::uuid ORDER BY nth, place',
      [this.#run],
    );
    const tally = this.#shop.tally(this.#run);
    const points = this.#points().length;
    const state: CheckoutState = {
      possible: ['crash', ...(this.#crashed.length < points ? ['next'] : [])],
      ...{ keyed: this.#keyed, fails: this.#fails, statements: this.#statements },
      ...{ tally, usual: this.#usual ?? tally },
      ...{ run: this.#row(), steps, crashed: [...this.#crashed], points },
    };
    this.#stage.frame(
      text,
      state,
      tone,
      ({ name, by }) => by.startsWith('worker') && OF_RUN.test(name),
    );
  }
}
