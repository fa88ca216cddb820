/** What a worker handles: the handlers of jobs and the bodies of workflows, added before it runs. */
import { invalid, shown } from '../job/errors/holdfast-error.js';
import type { JobDefinition } from '../job/job.js';
import type { WorkflowDefinition } from '../workflow/definition.js';
import type { WorkflowBody } from '../workflow/flow.js';
import { addRoute, workflowRoute } from './routes.js';
import { aloneHandler } from './run/batch.js';
import {
  type BatchHandler,
  type BatchOptions,
  type Handler,
  type JobHandler,
  type Route,
  resolveBatch,
} from './run/handler-context.js';

/** Throws unless it is a worker, of whichever copy of the package. `what` names the argument. */
export function checkWorker(given: unknown, what: string, undone: string): void {
  const { handle, run } = (given ?? {}) as Partial<Handling & { run: unknown }>;
  if (typeof handle === 'function' && typeof run === 'function') return;
  throw invalid(`${what} must be a worker, made with hf.worker(), not ${shown(given)}. ${undone}`);
}

export abstract class Handling {
  /** By type. */
  protected readonly routes = new Map<string, Route>();

  /** Throws unless the worker has not been started. */
  protected abstract checkNew(instead: string): void;

  /** For our own shapes: a type whose jobs run for as long as their worker, `residents` of them at once. */
  static addResident(
    worker: Handling,
    job: JobDefinition<never, unknown>,
    residents: number,
    handler: Handler,
  ): void {
    worker.checkNew('add handlers before run()');
    const given = job as unknown as JobDefinition<unknown, unknown>;
    addRoute(worker.routes, 'project()', given, handler, () => ({ handler, residents }));
  }

  /** For our own shapes: a type whose handlers mostly wait for somebody else. */
  static addWaiting<Payload>(
    worker: Handling,
    by: string,
    job: JobDefinition<Payload>,
    handler: JobHandler<Payload, unknown>,
  ): void {
    worker.checkNew('add handlers before run()');
    addRoute(worker.routes, by, job, handler, () => ({
      ...{ handler: handler as unknown as Handler, waits: true },
    }));
  }

  /**
   * Adds the handler of a job. Call it before `run()`.
   * @example worker.handle(sendReceipt, async ({ payload }) => mail.send(payload.orderId));
   */
  handle<Input, Payload, Result>(
    job: JobDefinition<Input, Payload, Result>,
    handler: JobHandler<Payload, NoInfer<Result>>,
  ): this {
    this.checkNew('add handlers before run()');
    addRoute(this.routes, 'handle()', job, handler, () => ({
      handler: handler as unknown as Handler,
    }));
    return this;
  }

  /**
   * Adds a handler that gets several jobs at once. `job.done(result)` completes one and `job.fail(error)` fails one. When
   * the handler returns, jobs you did not settle are completed; when it throws, they fail.
   * @example
   * worker.handleMany(sendReceipt, { max: 50 }, async (jobs) => {
   *   const refused = await mail.sendAll(jobs.map(({ payload }) => payload.orderId));
   *   for (const job of jobs) if (refused.has(job.payload.orderId)) job.fail(new Error('refused'));
   * });
   */
  handleMany<Input, Payload, Result>(
    job: JobDefinition<Input, Payload, Result>,
    options: BatchOptions,
    handler: BatchHandler<Payload, NoInfer<Result>>,
  ): this {
    this.checkNew('add handlers before run()');
    addRoute(this.routes, 'handleMany()', job, handler, () => {
      const many = resolveBatch(options, handler);
      return { many, handler: aloneHandler(many) };
    });
    return this;
  }

  /**
   * Adds the body of a workflow; for several versions, an object of bodies by version. A run keeps the version it began with.
   * @example worker.workflow(checkout, async (flow, order) => flow.step('charge', ({ key }) => bank.charge(order, { key })));
   */
  workflow<Input, Signal extends object, Result, Payload>(
    definition: WorkflowDefinition<Input, Signal, Result, Payload>,
    bodies:
      | WorkflowBody<Payload, Signal, NoInfer<Result>>
      // biome-ignore lint/suspicious/noExplicitAny: an older version began with another input
      | Readonly<Record<number, WorkflowBody<any, Signal, NoInfer<Result>>>>,
  ): this {
    this.checkNew('add handlers before run()');
    const workflow = workflowRoute(definition, bodies);
    const handler = () => undefined;
    addRoute(this.routes, 'workflow()', definition, handler, () => ({ handler, workflow }));
    return this;
  }
}
