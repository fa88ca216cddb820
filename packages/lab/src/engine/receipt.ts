/**
 * Journey 1, one worker and one receipt: enqueue, claim, success or failure, a second claimer, and a completion that
 * names an old generation. Every act is one verb of the product on one row.
 */
import { complete, DEFAULT_RETRY, fail, insert, renew, retryDelayMs } from 'holdfast/internal';
import { Desk, type Held, LEASE_MS, type RowState } from './desk.js';
import type { Act, Journey, Settings, Tone } from './frame.js';
import { NAMES, type Stage, seconds } from './stage.js';

const [A, B] = ['worker-a', 'worker-b'];
const ERROR = 'Error: SMTP 451, try again later';

export interface ReceiptState extends RowState {
  /** What can be done now. */
  readonly possible: readonly string[];
  /** How long each retry was told to wait. */
  readonly retriesMs: readonly number[];
}

export class Receipt implements Journey {
  readonly #stage: Stage;
  readonly #desk: Desk;
  readonly #jitter: boolean;
  readonly #retriesMs: number[] = [];
  #id: string | null = null;
  #held: Held | null = null;

  constructor(stage: Stage, settings: Settings) {
    this.#stage = stage;
    this.#desk = new Desk(stage);
    this.#jitter = settings.jitter === true;
  }

  async begin(): Promise<void> {
    this.#say('The queue is empty. A customer pays for order:9182, and a receipt must be sent.');
  }

  async act(act: Act): Promise<void> {
    if (!this.#possible().includes(act.do)) {
      this.#say(`“${act.do}” does not fit now, so nothing ran.`, 'refused');
      return;
    }
    await this[act.do as 'enqueue'](act);
  }

  async enqueue(_: Act): Promise<void> {
    const job = this.#desk.receipt(5, null);
    await insert(this.#desk.producer(), NAMES, [job]);
    this.#id = job.id;
    this.#say(`The row is written: ${job.type} of ${job.key}, pending and due.`, 'good');
  }

  async claim(_: Act): Promise<void> {
    const job = await this.#desk.claim(A);
    if (!job) {
      const owner = this.#desk.state(this.#id).row?.claimed_by;
      const why = owner ? `${owner} holds it` : 'the job is not due yet';
      return this.#say(`0 rows: ${why}.`, 'refused');
    }
    this.#held = job;
    this.#say(
      `${A} holds it for ${seconds(LEASE_MS)}: attempt ${job.attempt}, generation ${job.generation}.`,
      'good',
    );
  }

  async second(_: Act): Promise<void> {
    const job = await this.#desk.claim(B);
    this.#say(
      job ? `${B} got it.` : `0 rows for ${B}: the row is processing, and its lease lasts.`,
      job ? 'bad' : 'refused',
    );
  }

  async succeed(_: Act): Promise<void> {
    const { id, generation } = this.#held as Held;
    const moved = await complete(await this.#desk.worker(A), NAMES, A, [{ id, generation }]);
    this.#held = null;
    if (moved.length === 0) return this.#say('0 rows: the lease ran out.', 'refused');
    this.#say('Completed: the row left the queue and stands in the archive.', 'good');
  }

  async fail(_: Act): Promise<void> {
    const { id, generation, attempt } = this.#held as Held;
    // Without jitter a delay is its own ceiling: 2, 4, 8, 16 s.
    const delayMs = retryDelayMs(
      attempt,
      DEFAULT_RETRY,
      this.#jitter ? this.#stage.random : () => 1,
    );
    const failure = { id, generation, delayMs, error: ERROR, summary: ERROR };
    const [moved] = await fail(await this.#desk.worker(A), NAMES, A, [failure]);
    this.#held = null;
    if (!moved) return this.#say('0 rows: the lease ran out.', 'refused');
    if (moved.status === 'dead_letter')
      return this.#say(
        `Attempt ${attempt} was the last: a dead letter, for a person to see.`,
        'bad',
      );
    this.#retriesMs.push(delayMs);
    this.#say(`Attempt ${attempt} failed: retry in ${seconds(delayMs)}.`, 'bad');
  }

  /** As a worker would that was away for so long that somebody else claimed the job. */
  async stale(_: Act): Promise<void> {
    const { id, generation } = this.#held as Held;
    const old = { id, generation: generation - 1 };
    const moved = await complete(await this.#desk.worker(A), NAMES, A, [old]);
    const now = this.#desk.state(this.#id).row?.lease_generation ?? generation;
    this.#say(
      `${moved.length} rows for a completion with generation ${old.generation}: the row has ${now}.`,
      moved.length === 0 ? 'refused' : 'bad',
    );
  }

  async renew(_: Act): Promise<void> {
    const { id, generation } = this.#held as Held;
    const held = await renew(await this.#desk.worker(A), NAMES, A, [{ id, generation }], LEASE_MS);
    if (held.length === 0) {
      this.#held = null;
      return this.#say('0 rows: a lease that ran out is not renewed.', 'refused');
    }
    this.#say(`Renewed: the lease lasts for ${seconds(LEASE_MS)} again.`, 'good');
  }

  async wait(act: Act): Promise<void> {
    const ms = Number(act.ms ?? 1_000);
    await this.advance(ms);
  }

  async due(_: Act): Promise<void> {
    await this.advance(this.#desk.state(this.#id).dueMs ?? 0);
  }

  async advance(ms: number): Promise<void> {
    await this.#stage.clock.runUntil(this.#stage.now + ms);
    const { dueMs, leaseMs } = this.#desk.state(this.#id);
    const then =
      dueMs === 0 ? 'It is due.' : leaseMs === 0 ? 'Its lease has run out.' : 'Nothing ran.';
    this.#say(`${seconds(ms)} went by. ${then}`);
  }

  #possible(): string[] {
    const { row, dueMs } = this.#desk.state(this.#id);
    if (!row) return ['enqueue'];
    if (this.#held)
      return [
        'succeed',
        'fail',
        'second',
        'renew',
        'wait',
        ...(this.#held.generation > 1 ? ['stale'] : []),
      ];
    if (row.status === 'pending') return ['claim', 'wait', ...(dueMs ? ['due'] : [])];
    return row.status === 'processing' ? ['claim', 'wait'] : [];
  }

  #say(text: string, tone: Tone = 'plain'): void {
    const state: ReceiptState = {
      ...this.#desk.state(this.#id),
      possible: this.#possible(),
      retriesMs: [...this.#retriesMs],
    };
    this.#stage.frame(text, state, tone);
  }
}
