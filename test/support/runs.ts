/** One worker with all workflows and jobs of a test file, and what tests ask about their runs. */
import { afterAll, beforeAll } from 'vitest';
import {
  type Holdfast,
  holdfast,
  job,
  type Worker,
  type WorkerOptions,
  type WorkflowBody,
  type WorkflowDefinition,
  workflow,
} from '../../packages/holdfast/src/index.js';
import { type TestGround, testDatabase } from './database.js';
import { recordingLogger } from './logger.js';
import { until } from './until.js';

// biome-ignore lint/suspicious/noExplicitAny: signals of any name, with any value
export type AnySignals = Record<string, any>;
// biome-ignore lint/suspicious/noExplicitAny: tests pass what they like
export type Run = WorkflowDefinition<any, AnySignals, any>;
// biome-ignore lint/suspicious/noExplicitAny: tests pass what they like
export type Body = WorkflowBody<any, AnySignals, any>;

/** Retried as soon as may be. */
export const SOON = { base: 1, cap: 1 } as const;

/** `prepare`: before the worker starts; returns the address by which it reaches the database. */
export function testRuns(
  options: WorkerOptions = {},
  prepare: (db: TestGround) => Promise<string> = async ({ url }) => url,
) {
  const db = testDatabase();
  const log = recordingLogger();
  const handlers: ((worker: Worker) => unknown)[] = [];
  let worker: Worker;
  let running: Promise<void>;
  let hf: Holdfast;
  beforeAll(async () => {
    hf = holdfast({ connectionString: await prepare(db), logger: log });
    worker = hf.worker({ handleSignals: false, poll: '50ms', ...options });
    for (const add of handlers) add(worker);
    running = worker.run();
  });
  afterAll(async () => {
    await worker?.stop({ grace: 0 });
    await running;
    await hf?.close();
  });

  return {
    db,
    log,
    /** Before the tests run. */
    workflow(name: string, body: Body, own: Parameters<typeof workflow>[1] = {}): Run {
      const made = workflow(name, { retry: SOON, ...own }) as Run;
      handlers.push((of) => of.workflow(made, body));
      return made;
    },
    job<Input>(name: string, handler: (input: Input) => unknown) {
      const made = job<Input, unknown>(name as never, { maxAttempts: 1, retry: SOON });
      handlers.push((of) => of.handle(made, ({ payload }) => handler(payload as never) as never));
      return made;
    },
    async start(of: Run, input: unknown = null): Promise<string> {
      return (await db.hf.enqueue(of, input)).id;
    },
    /** How it ended. */
    async end(of: Run, id: string) {
      return db.hf.wait(of, id, { timeout: '30s' });
    },
    async ran(of: Run, input: unknown = null) {
      const { id } = await db.hf.enqueue(of, input);
      return db.hf.wait(of, id, { timeout: '30s' });
    },
    /** Until the run waits, and nobody holds it; `as`: in this step. */
    asleep: (id: string, as?: string) =>
      until(`run ${id} sleeps${as ? ` in ${as}` : ''}`, async () => {
        const [row] = await db.rows(
          `SELECT 1 FROM holdfast.inbox AS i WHERE i.id = $1 AND i.status = 'pending' AND i.wait_until = i.available_at
           AND ($2::text IS NULL OR EXISTS (SELECT FROM holdfast.inbox_steps AS s
             WHERE s.run_id = i.id AND s.name = $2 AND s.place IS NULL))`,
          [id, as ?? null],
        );
        return row;
      }),
    names: async (id: string) =>
      (await db.hf.steps(id)).steps.map(({ name, kind, state }) => `${kind} ${name} ${state}`),
  };
}
