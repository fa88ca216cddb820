/**
 * Journey 2, crash and dedupe: one job per idempotency key, a worker that dies before or after its mail, a lease that
 * runs out, recovery, and the stale worker that comes back. The guard is the product's `once`: look for the marker, do
 * it, write the marker. A crash between the deed and its marker repeats the deed, here as anywhere.
 */
import { findEffect, insertWithKeys, markStarted, recordEffect, recover } from 'holdfast/internal';
import { type Held, RowJourney, type RowState } from './desk.js';
import type { Act, RowText, Settings } from './frame.js';
import { NAMES, type Stage } from './stage.js';

const [A, B] = ['worker-a', 'worker-b'];
const EFFECT = 'receipt';

/** Where the process is killed. */
export type Moment = 'before' | 'between' | 'after';
const MOMENTS: Readonly<Record<Moment, string>> = {
  before: 'before the mail was sent',
  between: 'after the mail was sent, before its marker was written',
  after: 'after the mail was sent',
};

export interface Mail {
  readonly at: number;
  readonly by: string;
  readonly generation: number;
}

export interface CrashState extends RowState {
  readonly possible: readonly string[];
  readonly guard: boolean;
  readonly mails: readonly Mail[];
  readonly markers: readonly RowText[];
  /** Rows of the queue and its archive: one, however often it was enqueued. */
  readonly rows: number;
  readonly enqueues: number;
}

interface Run extends Held {
  readonly by: string;
}

export class Crash extends RowJourney {
  readonly #maxAttempts: number;
  #guard: boolean;
  #enqueues = 0;
  readonly #mails: Mail[] = [];
  /** Who runs the job, as far as he knows. */
  #run: Run | null = null;
  /** Who was killed or left behind while he held it, and may wake up. */
  #stale: Run | null = null;

  constructor(stage: Stage, settings: Settings) {
    super(stage);
    this.#guard = settings.guard === true;
    this.#maxAttempts = Number(settings.maxAttempts ?? 5);
  }

  async begin(): Promise<void> {
    this.say('The queue is empty, and no mail was sent.');
  }

  async enqueue(): Promise<void> {
    const job = this.desk.receipt(this.#maxAttempts, 'receipt-9182-v1');
    const [outcome] = await insertWithKeys(this.desk.producer(), NAMES, [job], false);
    this.#enqueues++;
    this.id = outcome?.id ?? null;
    if (outcome?.deduplicated)
      return this.say('Its key stands for the job that is there: no second row.', 'refused');
    this.say('Enqueued under the key receipt-9182-v1: one row.', 'good');
  }

  async claim(act: Act): Promise<void> {
    const by = String(act.by ?? (this.#stale?.by === A ? B : A));
    const { row, leaseMs } = this.row;
    const suspect = Number(row?.crashes ?? 0) > 1;
    const job = await this.desk.claim(by, { suspect });
    if (!job) {
      const why =
        leaseMs === 0 && suspect
          ? 'it may have killed its worker, so only recovery takes it back'
          : `the lease of ${row?.claimed_by} lasts`;
      return this.say(`0 rows for ${by}: ${why}.`, 'refused');
    }
    if (job.crashes > 0) await markStarted(await this.desk.worker(by), NAMES, by, job);
    if (this.#run) this.#stale = this.#run;
    this.#run = { ...job, by };
    const alone = Number(job.crashes) >= 4 ? ' It runs alone: from now on a crash counts.' : '';
    this.say(
      `${by} holds it: attempt ${job.attempt}, generation ${job.generation}.${alone}`,
      'good',
    );
  }

  /** The handler, to its end and its completion. */
  async handle(): Promise<void> {
    const run = this.#run as Run;
    const sent = await this.#send(run, null);
    const { by } = run;
    const moved = await this.desk.complete(by, run);
    this.#run = null;
    const what = sent ? `${by} sent the mail` : `${by} found the marker, sent nothing`;
    if (moved === 0) return this.say(`${what}; its completion moved 0 rows.`, 'refused');
    this.say(`${what} and completed the job.`, sent && this.#mails.length > 1 ? 'bad' : 'good');
  }

  /** The process dies in the middle of the handler. */
  async kill(act: Act): Promise<void> {
    const run = this.#run as Run;
    const when = (act.when ?? 'after') as Moment;
    await this.#send(run, when);
    this.#stale = run;
    this.#run = null;
    this.say(
      `${run.by} is killed ${MOMENTS[when]}. The row still says that it is processing.`,
      'bad',
    );
  }

  /** The mail, under the guard if there is one. True: it was sent. */
  async #send({ id, generation, by }: Run, killed: Moment | null): Promise<boolean> {
    const db = await this.desk.worker(by);
    if (this.#guard && (await findEffect(db, NAMES, id, EFFECT)) !== null) return false;
    if (killed === 'before') return false;
    this.#mails.push({ at: this.stage.now, by, generation });
    if (!this.#guard || killed === 'between') return true;
    await recordEffect(db, NAMES, { workerId: by, id, generation }, EFFECT, '{"sent": true}');
    return true;
  }

  async expire(): Promise<void> {
    await this.advance(this.row.leaseMs ?? 0);
  }

  async recover(): Promise<void> {
    const by = this.#stale?.by === A ? B : A;
    const before = Number(this.row.row?.attempts ?? 0);
    const moved = await recover(await this.desk.worker(by), NAMES, { limit: 100, recoverer: by });
    const [job] = moved;
    if (!job) return this.say('0 rows: no lease has run out.', 'refused');
    if (job.status === 'dead_letter')
      return this.say('It crashed alone, and that was its last attempt: a dead letter.', 'bad');
    const spent = Number(this.row.row?.attempts ?? 0) >= before;
    this.say(
      `${by} recovered it: pending again, and its attempt ${spent ? 'is spent: it ran alone' : 'was given back'}.`,
      spent ? 'bad' : 'good',
    );
  }

  /** The worker that was thought dead goes on where it stood, and wants to complete. */
  async wake(): Promise<void> {
    const stale = this.#stale as Run;
    const { generation, by } = stale;
    const moved = await this.desk.complete(by, stale);
    this.#stale = null;
    const what = `${by} wakes up and completes generation ${generation}`;
    if (moved === 0)
      return this.say(`${what}: 0 rows. It learns that the job is not its own.`, 'refused');
    this.say(`${what}: its lease had lasted, and nobody else had the job.`, 'good');
  }

  async guard(act: Act): Promise<void> {
    this.#guard = act.on === true;
    this.say(
      this.#guard
        ? 'From now on the handler sends under once("receipt").'
        : 'From now on the handler sends without a guard.',
    );
  }

  protected news({ leaseMs }: RowState): string {
    return leaseMs === 0 ? 'The lease has run out.' : 'Nothing ran.';
  }

  protected possible(): string[] {
    const { row, leaseMs } = this.row;
    const always = ['guard', ...(this.#stale ? ['wake'] : [])];
    if (!row) return ['enqueue', ...always];
    if (row.status === 'pending') return ['enqueue', 'claim', 'wait', ...always];
    if (row.status !== 'processing') return ['enqueue', ...always];
    if (this.#run && leaseMs !== 0) return ['enqueue', 'handle', 'kill', 'wait', ...always];
    return ['enqueue', 'claim', 'recover', 'wait', ...(leaseMs ? ['expire'] : []), ...always];
  }

  protected state() {
    const count = this.stage.look(`SELECT (SELECT count(*) FROM holdfast.inbox)
      + (SELECT count(*) FROM holdfast.inbox_archive) AS rows`)[0]?.rows;
    return {
      ...{ guard: this.#guard, mails: [...this.#mails] },
      markers: this.stage.look(
        'SELECT name, value, generation, created_at FROM holdfast.inbox_effects',
      ),
      ...{ rows: Number(count), enqueues: this.#enqueues },
    };
  }
}
