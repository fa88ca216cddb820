/** What a turn asks of the database: some of it together with others, some in transactions of its own. */
import { prepareJobs } from '../../enqueue/enqueue.js';
import { asChildren, firstChild, writeChildren } from '../../enqueue/insert-children.js';
import { encodePayload } from '../../job/payload.js';
import { pause, untilDone } from '../../postgres/connect/backoff.js';
import { mayPass, withTransaction } from '../../postgres/connect/pool.js';
import { inQueue } from '../../postgres/in-queue.js';
import { checkQueueName } from '../../postgres/names.js';
import { executor, type Queryable } from '../../postgres/queryable.js';
import { openGroup, outcomesOf, stands } from '../../workflow/rows/children.js';
import { type Owner, progress, restart } from '../../workflow/rows/record.js';
import type { NewChildren, TurnPorts } from '../../workflow/turn/ports.js';
import type { ContextDeps } from '../run/context-deps.js';
import { jobState, leaseLost } from '../run/handler-context.js';
import type { LeasedJob } from '../run/leased-job.js';
import type { RunsIo } from './runs-io.js';
import { transactStep } from './transact.js';

/** At most so many children are written in one statement. */
const CHUNK = 5_000;

export function portsOf(held: LeasedJob, deps: ContextDeps, io: RunsIo): TurnPorts {
  const { engine, names, ownPool, begin, gate } = deps;
  const { id, generation, workerId } = held;
  const owner: Owner = { workerId, id, generation };
  const lost = (doing: string) => {
    held.gone = true;
    return leaseLost(id, doing);
  };
  /** A run that is lost is so for everything that its turn does from now on. */
  const checked = async <Value>(made: Promise<Value>): Promise<Value> => {
    try {
      return await made;
    } catch (error) {
      if ((error as { code?: unknown } | null)?.code === 'LEASE_LOST') held.gone = true;
      throw error;
    }
  };

  async function suspended(of: Parameters<TurnPorts['suspend']>[0]) {
    // Its answer decides, not a renewal that crosses it.
    held.settling = true;
    const answer = await checked(io.suspend({ owner, ...of })).catch((error) => {
      held.settling = false;
      throw error;
    });
    if (answer.state === 'awake') held.settling = false;
    return answer;
  }

  const own = <Value>(work: (tx: Queryable) => Promise<Value>): Promise<Value> => {
    const transact = () => withTransaction(ownPool, work, begin);
    return gate ? gate.run(names.queue, transact) : transact();
  };

  async function spawn({ name, nth, first, job, inputs, options }: NewChildren): Promise<void> {
    const items = inputs.map((input, n) => job.item(input as never, options?.(input, n)));
    const limits = { maxPayloadBytes: deps.maxPayloadBytes, onMismatch: 'error' } as const;
    const prepared = await prepareChildren(items, limits);
    const queue = checkQueueName(job.queue);
    const to = { ...names, queue };
    const firstId = firstChild();
    const parent = { queue: names.queue, run: id, step: name };
    const group = { name, nth, first, count: inputs.length, queue, firstId };
    const done = await untilDone(
      io.abandoned,
      async (again) => {
        if (again && (await stands(engine, names, id, name))) return true;
        return own(async (tx) => {
          const db = executor(tx);
          for (let from = 0; from < prepared.length; from += CHUNK) {
            const some = asChildren(prepared.slice(from, from + CHUNK), firstId, from);
            await inQueue(to, writeChildren(db, to, parent, some, firstId));
          }
          if (!(await openGroup(db, names, owner, group))) throw lost(`the children of "${name}"`);
          return true;
        });
      },
      (error) => {
        if (!mayPass(error)) throw error;
        io.reportError('writing the children of a run', error);
      },
    );
    if (done === null) throw lost(`the children of "${name}"`);
    const { type } = job;
    deps.emit({ kind: 'enqueued', queue, type, count: inputs.length, deduplicated: 0 });
  }

  return {
    load: () => checked(io.load({ owner })),
    record: (marker) => checked(io.record({ owner, marker })),
    suspend: suspended,
    progress: () => progress(engine, names, owner),
    transact: (marker, work) => checked(transactStep({ deps, io, owner, own, lost }, marker, work)),
    spawn: (children) => checked(spawn(children)),
    outcomes: (step) => outcomesOf(engine, names, id, step),
    async trying({ name, kind, attempt }, work) {
      const about = { queue: names.queue, type: held.row.type, id };
      const from = io.now();
      const ended = (failed: boolean) =>
        deps.emit({
          kind: 'step',
          ...about,
          step: name,
          of: kind,
          attempt,
          failed,
          ms: io.now() - from,
        });
      try {
        const step = { ...about, step: name, kind, attempt };
        const value = await (deps.tracing ? deps.tracing.step(step, work) : work());
        ended(false);
        return value;
      } catch (error) {
        ended(true);
        throw error;
      }
    },
    async restart(input, version) {
      const limits = { maxBytes: deps.maxPayloadBytes, what: 'the input of flow.restart()' };
      const text = encodePayload(input, { ...limits, consequence: 'the run was not begun anew' });
      held.settling = true;
      const row = await restart(engine, names, owner, text, version);
      if (!row) throw lost('the restart');
    },
    pause,
    now: io.now,
  };
}

/** Children stand for themselves: a key that stands for another job would make one of two. */
async function prepareChildren(...[items, limits]: Parameters<typeof prepareJobs>) {
  const jobs = [];
  for (let from = 0; from < items.length; from += CHUNK)
    jobs.push(...(await prepareJobs(items.slice(from, from + CHUNK), limits)));
  const keyed = jobs.find(
    ({ unique, idempotencyKey }) => unique !== null || idempotencyKey !== null,
  );
  if (keyed)
    throw jobState(
      `A child of type "${keyed.type}" has a unique key or an idempotency key, which may stand for another job; no child was written. Leave it out: a run writes its children once.`,
    );
  return jobs;
}
