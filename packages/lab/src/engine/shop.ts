/**
 * The shop of the checkout's journey: the body of the workflow, what it does elsewhere and in its own rows, and how often
 * each of these was asked for and happened. Elsewhere means a bank and a printer that know idempotency keys,
 * unless the visitor takes the keys away.
 */
import { DeadLetter, type Flow, job, type WorkflowBody, workflow } from 'holdfast';
import type { Worker } from 'holdfast/internal';
import type pg from 'pg';
import type { Stage } from './stage.js';

const CALL_MS = 20;
const BOXES = 2;

interface Signals {
  readonly approved: { readonly by: string };
}
interface Order {
  readonly fails: boolean;
}
type Input = Order & { readonly run: string };

/** Beside the tables of Holdfast: what a transaction writes. Nothing there refuses a second row. */
const TABLE = `CREATE TABLE IF NOT EXISTS shop (run uuid, what text, pieces integer); DELETE FROM shop`;
const WRITE = 'INSERT INTO shop VALUES ($1, $2, $3)';

export const checkout = workflow<Order, Signals, string>('checkout');
const shipBox = job<Input>('ship_box');

/** What a checkout does, in order, and where. */
export const EFFECTS = [
  ...(['charge', 'refund', 'label', 'slip'] as const),
  ...(['reserve', 'put back', 'ship', 'receipt'] as const),
];
export type EffectName = (typeof EFFECTS)[number];
/** By effect: how often its function ran, and how often it happened. */
export type Tally = Readonly<
  Record<EffectName, { readonly ran: number; readonly happened: number }>
>;

interface Calls {
  readonly ran: Map<EffectName, number>;
  readonly elsewhere: Map<EffectName, number>;
}

export class Shop {
  readonly #stage: Stage;
  readonly #keyed: boolean;
  readonly #runs = new Map<string, Calls>();
  readonly #keys = new Set<string>();

  constructor(stage: Stage, keyed: boolean) {
    this.#stage = stage;
    this.#keyed = keyed;
    stage.server.rows(TABLE);
  }

  #of(run: string): Calls {
    const calls = this.#runs.get(run) ?? { ran: new Map(), elsewhere: new Map() };
    this.#runs.set(run, calls);
    return calls;
  }

  /** Asks another system. It does once what it is asked for under one key. */
  async #call(run: string, what: EffectName, key: string): Promise<string> {
    await new Promise((resolve) => setTimeout(resolve, CALL_MS));
    const { ran, elsewhere } = this.#of(run);
    add(ran, what);
    if (!this.#keyed || !this.#keys.has(key)) add(elsewhere, what);
    this.#keys.add(key);
    return `${what} done`;
  }

  async #write(tx: Pick<pg.PoolClient, 'query'>, run: string, what: EffectName, pieces = 0) {
    add(this.#of(run).ran, what);
    await tx.query(WRITE, [run, what, pieces]);
  }

  handle(worker: Worker): void {
    const body: WorkflowBody<Order, Signals, string> = (flow, order) => this.#body(flow, order);
    worker.workflow(checkout, body);
    worker.handle(shipBox, async ({ payload: { run, fails }, transaction }) => {
      if (fails) throw new DeadLetter('the carrier does not go there');
      await transaction((tx) => this.#write(tx, run, 'ship'));
    });
  }

  async #body(flow: Flow<Signals, Order>, order: Order): Promise<string> {
    const { id } = flow;
    await flow.step('charge', ({ key }) => this.#call(id, 'charge', key), {
      undo: (_, { key }) => this.#call(id, 'refund', key),
    });
    await flow.transaction('reserve', (tx) => this.#write(tx, id, 'reserve', -1), {
      undo: (tx) => this.#write(tx, id, 'put back', 1),
    });
    await Promise.all([
      flow.step('label', ({ key }) => this.#call(id, 'label', key)),
      flow.step('slip', ({ key }) => this.#call(id, 'slip', key)),
    ]);
    const { by } = await flow.wait('approval', 'approved');
    const boxes = Array.from({ length: BOXES }, () => ({ ...order, run: id }));
    const shipped = await flow.children('ship', shipBox, boxes);
    if (shipped.some(({ status }) => status !== 'completed'))
      throw new DeadLetter('the boxes were not shipped');
    await flow.transaction('receipt', (tx) => this.#write(tx, id, 'receipt'));
    return `approved by ${by}`;
  }

  tally(run: string): Tally {
    const { ran, elsewhere } = this.#of(run);
    const rows = this.#stage.look(
      'SELECT what, count(*) FROM shop WHERE run = $1::uuid GROUP BY what',
      [run],
    );
    const written = new Map(rows.map(({ what, count }) => [what, Number(count)]));
    return Object.fromEntries(
      EFFECTS.map((name) => {
        const happened = elsewhere.get(name) ?? written.get(name) ?? 0;
        return [name, { ran: ran.get(name) ?? 0, happened }];
      }),
    ) as Tally;
  }
}

function add(counts: Map<EffectName, number>, name: EffectName): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}
