/** What a worker handles: its routes by type, and the queues that it serves. */
import { type Handles, queueSettings } from '../fleet/registry.js';
import { channelOf } from '../fleet/wake.js';
import { declaredIn, readLimits } from '../inspect/queue/limits.js';
import { HoldfastError, shown } from '../job/errors/holdfast-error.js';
import { checkDefinition, type JobDefinition } from '../job/job.js';
import { changedHooks, declareHooks } from '../operate/dead-letter-hooks.js';
import { declareLimits } from '../operate/limits.js';
import type { Executor } from '../postgres/queryable.js';
import { isWorkflow } from '../workflow/definition.js';
import type { Route, WorkflowRoute } from './run/handler-context.js';

export function addRoute<Input, Payload, Result>(
  routes: Map<string, Route>,
  where: string,
  job: JobDefinition<Input, Payload, Result>,
  handler: unknown,
  route: () => Omit<Route, 'job'>,
): void {
  const undone = 'No handler was added.';
  checkDefinition(job, `The first argument of ${where}`, undone);
  const { type } = job;
  const problem =
    typeof handler !== 'function'
      ? `The handler of "${type}" must be a function, not ${shown(handler)}. ${undone}`
      : where !== 'workflow()' && isWorkflow(job as object)
        ? `"${type}" was made with workflow(), so it has bodies and no handler. Use workflow(). ${undone}`
        : routes.has(type)
          ? `There is a handler for "${type}" already; it was kept.`
          : null;
  if (problem) throw new HoldfastError('OPTION_INVALID', problem);
  const starts = { count: 0, at: 0 };
  routes.set(type, { job: job as unknown as Route['job'], ...route(), starts });
}

/** A body for each version that may be in the queue: of the newest there must be one. */
export function workflowRoute(definition: unknown, bodies: unknown): WorkflowRoute {
  const undone = 'No handler was added.';
  checkDefinition(definition, 'The first argument of workflow()', undone);
  const { type, version } = definition as JobDefinition<never, unknown>;
  const wrong = (text: string) => new HoldfastError('OPTION_INVALID', `${text} ${undone}`);
  if (!isWorkflow(definition as object))
    throw wrong(`"${type}" was made with job(), so it has a handler and no bodies. Use handle().`);
  const given = typeof bodies === 'function' ? { [version]: bodies } : bodies;
  if (typeof given !== 'object' || given === null)
    throw wrong(
      `The bodies of "${type}" must be a function, or an object by version, not ${shown(bodies)}.`,
    );
  const byVersion = new Map<
    number,
    WorkflowRoute['bodies'] extends ReadonlyMap<number, infer B> ? B : never
  >();
  for (const [key, body] of Object.entries(given)) {
    const of = Number(key);
    if (!Number.isInteger(of) || of < 1 || of > version)
      throw wrong(
        `The bodies of "${type}" are for versions from 1 to ${version}, not ${shown(key)}.`,
      );
    if (typeof body !== 'function')
      throw wrong(
        `The body of version ${key} of "${type}" must be a function, not ${shown(body)}.`,
      );
    byVersion.set(of, body);
  }
  if (!byVersion.has(version))
    throw wrong(
      `"${type}" has version ${version}, and no body for it. Add one, or lower the version.`,
    );
  return { definition: definition as object, bodies: byVersion };
}

/** What the registry says that this worker handles: by queue and type, the newest payload version. */
export function handlesOf(routes: ReadonlyMap<string, Route>, queues: readonly string[]): Handles {
  const handles: Record<string, Record<string, number>> = {};
  for (const { job } of routes.values()) {
    if (!queues.includes(job.queue)) continue;
    handles[job.queue] = { ...handles[job.queue], [job.type]: job.version };
  }
  return handles;
}

/** And of its workflows, the versions for which it has a body; null: it has no workflow. */
export function bodiesOf(routes: ReadonlyMap<string, Route>, queues: readonly string[]) {
  const bodies: Record<string, Record<string, number[]>> = {};
  for (const { job, workflow } of routes.values()) {
    if (!workflow || !queues.includes(job.queue)) continue;
    const versions = [...workflow.bodies.keys()].sort((a, b) => a - b);
    bodies[job.queue] = { ...bodies[job.queue], [job.type]: versions };
  }
  return Object.keys(bodies).length > 0 ? bodies : null;
}

export function typesOf(handles: Handles): Record<string, string[]> {
  return Object.fromEntries(
    Object.entries(handles).map(([queue, types]) => [queue, Object.keys(types)]),
  );
}

export function queuesToServe(routes: ReadonlyMap<string, Route>, named: readonly string[] | null) {
  const wanted = [...new Set([...routes.values()].map(({ job }) => job.queue))];
  const idle = named?.find((queue) => !wanted.includes(queue));
  const problem =
    routes.size === 0
      ? 'The worker has no handlers, so it was not started. Call handle(job, fn) before run().'
      : idle &&
        `No handler belongs to queue "${idle}", so the worker was not started. Add one, or leave the queue out.`;
  if (problem) throw new HoldfastError('HANDLER_MISSING', problem);
  return [...(named ?? wanted)];
}

/** Checks that the queues are there and declares their limits and onDeadLetter jobs, as far as they differ. Returns them by channel. */
export async function openQueues(
  db: Executor,
  schema: string,
  routes: ReadonlyMap<string, Route>,
  queues: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const known = await queueSettings(db, { schema, queue: 'inbox' });
  const served = [...routes.values()].filter(({ job }) => queues.includes(job.queue));
  const hooked = served.flatMap(({ job }) => job.onDeadLetter?.queue ?? []);
  const missing = [...queues, ...hooked].find((queue) => !known.some(({ name }) => name === queue));
  if (missing) {
    const why = queues.includes(missing) ? '' : ', to which onDeadLetter writes';
    throw new HoldfastError(
      'QUEUE_UNKNOWN',
      `There is no queue "${missing}" in schema "${schema}"${why}, so the worker was not started. ` +
        `Create it with \`holdfast queues create ${missing}\` or createQueue().`,
    );
  }
  const rows = await readLimits(db, { schema, queue: 'inbox' }, null);
  const changed = await changedHooks(db, schema);
  const channels = new Map<string, string>();
  for (const queue of queues) {
    const before = rows
      .filter((row) => row.queue === queue)
      .map((row) => ({ type: row.type, limit: declaredIn(row), keyed: row.keyed }));
    const jobs = served.flatMap(({ job }) => (job.queue === queue ? [job] : []));
    const types = jobs.map(({ type, limit, hasLimitKey }) => ({ type, limit, keyed: hasLimitKey }));
    await declareLimits(db, { schema, queue }, before, types);
    // A definition of an older copy of the library has none.
    const hooks = jobs.map(({ type, onDeadLetter: hook = null }) => ({ type, hook }));
    const news = changed(queue, hooks);
    if (news.length > 0) await declareHooks(db, { schema, queue }, news);
    channels.set(await channelOf(db, { schema, queue }), queue);
  }
  return channels;
}
