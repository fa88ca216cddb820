/**
 * Journey 1, one worker and one receipt: enqueue, claim, success or failure, a second claimer, and a completion that
 * names an old generation. Every act is one verb of the product on one row.
 */
import { DEFAULT_RETRY, fail, insert, renew, retryDelayMs } from 'holdfast/internal';
import { type Held, RowJourney, type RowState } from './desk.js';
import { LEASE_MS, type Settings } from './frame.js';
import { NAMES, type Stage, seconds } from './stage.js';

const [A, B] = ['worker-a', 'worker-b'];
const ERROR = 'Error: SMTP 451, try again later';

export interface ReceiptState extends RowState {
  /** What can be done now. */
  readonly possible: readonly string[];
  /** How long each retry was told to wait. */
  readonly retriesMs: readonly number[];
}

export class Receipt extends RowJourney {
  readonly #jitter: boolean;
  readonly #retriesMs: number[] = [];
  #held: Held | null = null;

  constructor(stage: Stage, settings: Settings) {
    super(stage);
    this.#jitter = settings.jitter === true;
  }

  async begin(): Promise<void> {
    this.say('The queue is empty. A customer pays for order:9182, and a receipt must be sent.');
  }

  async enqueue(): Promise<void> {
    const job = this.desk.receipt(5, null);
    await insert(this.desk.producer(), NAMES, [job]);
    this.id = job.id;
    this.say(`The row is written: ${job.type} of ${job.key}, pending and due.`, 'good');
  }

  async claim(): Promise<void> {
    const job = await this.desk.claim(A);
    if (!job) {
      const owner = this.row.row?.claimed_by;
      const why = owner ? `${owner} holds it` : 'the job is not due yet';
      return this.say(`0 rows: ${why}.`, 'refused');
    }
    this.#held = job;
    this.say(
      `${A} holds it for ${seconds(LEASE_MS)}: attempt ${job.attempt}, generation ${job.generation}.`,
      'good',
    );
  }

  async second(): Promise<void> {
    const job = await this.desk.claim(B);
    this.say(
      job ? `${B} got it.` : `0 rows for ${B}: the row is processing, and its lease lasts.`,
      job ? 'bad' : 'refused',
    );
  }

  async succeed(): Promise<void> {
    const moved = await this.desk.complete(A, this.#held as Held);
    this.#held = null;
    if (moved === 0) return this.say('0 rows: the lease ran out.', 'refused');
    this.say('Completed: the row left the queue and stands in the archive.', 'good');
  }

  async fail(): Promise<void> {
    const { id, generation, attempt } = this.#held as Held;
    // Without jitter a delay is its own ceiling: 2, 4, 8, 16 s.
    const delayMs = retryDelayMs(
      attempt,
      DEFAULT_RETRY,
      this.#jitter ? this.stage.random : () => 1,
    );
    const failure = { id, generation, delayMs, error: ERROR, summary: ERROR };
    const [moved] = await fail(await this.desk.worker(A), NAMES, A, [failure]);
    this.#held = null;
    if (!moved) return this.say('0 rows: the lease ran out.', 'refused');
    if (moved.status === 'dead_letter')
      return this.say(
        `Attempt ${attempt} was the last: a dead letter, for a person to see.`,
        'bad',
      );
    this.#retriesMs.push(delayMs);
    this.say(`Attempt ${attempt} failed: retry in ${seconds(delayMs)}.`, 'bad');
  }

  /** As a worker would that was away for so long that somebody else claimed the job. */
  async stale(): Promise<void> {
    const { id, generation } = this.#held as Held;
    const old = { id, generation: generation - 1 };
    const moved = await this.desk.complete(A, old);
    const now = this.row.row?.lease_generation ?? generation;
    this.say(
      `${moved} rows for a completion with generation ${old.generation}: the row has ${now}.`,
      moved === 0 ? 'refused' : 'bad',
    );
  }

  async renew(): Promise<void> {
    const { id, generation } = this.#held as Held;
    const held = await renew(await this.desk.worker(A), NAMES, A, [{ id, generation }], LEASE_MS);
    if (held.length === 0) {
      this.#held = null;
      return this.say('0 rows: a lease that ran out is not renewed.', 'refused');
    }
    this.say(`Renewed: the lease lasts for ${seconds(LEASE_MS)} again.`, 'good');
  }

  async due(): Promise<void> {
    await this.advance(this.row.dueMs ?? 0);
  }

  protected news({ dueMs, leaseMs }: RowState): string {
    if (dueMs === 0) return 'It is due.';
    return leaseMs === 0 ? 'Its lease has run out.' : 'Nothing ran.';
  }

  protected possible(): string[] {
    const { row, dueMs } = this.row;
    if (!row) return ['enqueue'];
    const stale = (this.#held?.generation ?? 0) > 1 ? ['stale'] : [];
    if (this.#held) return ['succeed', 'fail', 'second', 'renew', 'wait', ...stale];
    if (row.status === 'pending') return ['claim', 'wait', ...(dueMs ? ['due'] : [])];
    return row.status === 'processing' ? ['claim', 'wait'] : [];
  }

  protected state() {
    return { retriesMs: [...this.#retriesMs] };
  }
}
