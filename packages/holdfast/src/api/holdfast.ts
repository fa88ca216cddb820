/**
 * The methods of a Holdfast, each with what an editor shows of it. They are written out, because the compiler drops the
 * comments of methods that it infers from other files.
 */
import type { Enqueued } from '../enqueue/enqueue.js';
import type { Gauges } from '../inspect/queue/gauges.js';
import type { EnqueueItem, EnqueueOptions, JobDefinition, PayloadOf } from '../job/job.js';
import type { MigrationState } from '../schema/migrate.js';
import type { WorkerEvent } from '../worker/events.js';
import type { WorkerOptions } from '../worker/options.js';
import type { Worker } from '../worker/worker.js';
import type { archive } from './act/archive.js';
import type { byId } from './act/by-id.js';
import type { deadLetters } from './act/dead-letters.js';
import type { limits } from './act/limits.js';
import type { queueSettings } from './act/queue-settings.js';
import type { schedules } from './act/schedules.js';
import type { JobChanges, UpdateChoice } from './act/update.js';
import type { workflows } from './act/workflows.js';
import type { examine } from './doctor/doctor.js';
import type { AuditPage, AuditRequest } from './look/audit.js';
import type { looking } from './look/look.js';
import type { runs } from './look/runs.js';
import type { Wait } from './look/wait.js';
import type { EnqueueCall } from './options.js';

/** What `holdfast()` makes: it enqueues, makes workers, looks and acts. */
export interface Holdfast
  extends ReturnType<typeof looking>,
    ReturnType<typeof runs>,
    ReturnType<typeof byId>,
    ReturnType<typeof queueSettings>,
    ReturnType<typeof schedules>,
    ReturnType<typeof limits>,
    ReturnType<typeof workflows> {
  /** The schema with Holdfast's tables. */
  schema: string;
  /** Lists, groups, retries and discards dead letters. */
  deadLetters: ReturnType<typeof deadLetters>;
  /** Runs finished jobs again. */
  archive: ReturnType<typeof archive>;

  /**
   * Enqueues a job. With `tx` it commits with your transaction.
   * @example
   * await client.query('BEGIN');
   * await client.query('INSERT INTO orders (id) VALUES (9182)');
   * await hf.enqueue(sendReceipt, { orderId: 9182 }, { tx: client });
   * await client.query('COMMIT');
   */
  enqueue<Input>(
    job: JobDefinition<Input, unknown>,
    payload: PayloadOf<Input>,
    enqueueOptions?: EnqueueOptions & EnqueueCall,
  ): Promise<Enqueued>;
  /**
   * Enqueues up to 50,000 jobs of one queue in one statement, in the order given.
   * @example await hf.enqueueMany([9182, 9183].map((orderId) => sendReceipt.item({ orderId })));
   */
  enqueueMany: (items: readonly EnqueueItem[], call?: EnqueueCall) => Promise<Enqueued[]>;
  /**
   * Makes a worker. It runs once you have added handlers and called `run()`.
   * @example
   * const mailer = hf.worker({ concurrency: 20 });
   * mailer.handle(sendReceipt, async ({ payload }) => mail.send(payload.orderId));
   * await mailer.run();
   */
  worker(workerOptions?: WorkerOptions): Worker;

  /**
   * Brings the schema to this version. Every process may call it at its start.
   * @example await hf.migrate();
   */
  migrate: () => Promise<MigrationState[]>;
  /**
   * All migrations, and which were applied. It changes nothing.
   * @example const missing = (await hf.migrationStates()).filter(({ appliedAt }) => appliedAt === null);
   */
  migrationStates: () => Promise<MigrationState[]>;
  /**
   * The SQL that `migrate()` would run, for you to run yourself.
   * @example writeFileSync('migration.sql', await hf.pendingSql());
   */
  pendingSql: () => Promise<string>;

  /**
   * Changes a job that waits. A job that runs takes `{ delay: 0 }` only; others are rejected with JOB_STATE.
   * @example await hf.update('0199a1c2-7d3e-7000-8000-000000009182', { delay: '1h' });
   */
  update: <Input>(
    id: string,
    changes: JobChanges<Input>,
    choice?: UpdateChoice<Input>,
  ) => Promise<void>;
  /**
   * Waits until a job has ended, well or not. Rejects with JOB_UNKNOWN if no queue or archive has it.
   * @example
   * const { id } = await hf.enqueue(sendReceipt, { orderId: 9182 });
   * const { status, result } = await hf.wait(sendReceipt, id, { timeout: '1m' });
   */
  wait: Wait;
  /**
   * What people did to jobs, queues and workers, the latest first.
   * @example const { acts } = await hf.audit({ act: 'cancel', newer: '1d' });
   */
  audit: (request?: AuditRequest) => Promise<AuditPage>;
  /**
   * Checks for everything that is known to go wrong; says why it matters and what to do.
   * @example const problems = (await hf.doctor()).filter(({ level }) => level === 'problem');
   */
  doctor: () => ReturnType<typeof examine>;
  /**
   * Calls the listener for every enqueue and every event of the workers made here. Returns a function that stops it.
   * @example const stop = hf.onEvent((event) => event.kind === 'dead_letter' && console.error(event.type, event.error));
   */
  onEvent(listener: (event: WorkerEvent) => void): () => void;
  /**
   * The figures of the metrics: every queue's jobs by state, limits and workers.
   * @example const { queues } = await hf.gauges();
   */
  gauges: () => Promise<Gauges>;
  /**
   * Stops the workers made here, each with its `grace`, then closes the connections that were opened here, for good. A pool
   * of yours stays open.
   * @example await hf.close();
   */
  close: () => Promise<void>;
  /** `await using hf = holdfast()` closes it at the end of the scope. */
  [Symbol.asyncDispose]: () => Promise<void>;
}
