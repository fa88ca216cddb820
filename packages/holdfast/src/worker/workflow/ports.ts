/** What a turn asks of the database: some of it together with others, some in transactions of its own. */
import { prepareJobs } from '../../enqueue/enqueue.js';
import { asChildren, firstChild, writeChildren } from '../../enqueue/insert-children.js';
import { encodePayload } from '../../job/payload.js';
import { pause, untilDone } from '../../postgres/connect/backoff.js';
import { mayPass, withClient, withTransaction } from '../../postgres/connect/pool.js';
import { inQueue } from '../../postgres/in-queue.js';
import { checkQueueName } from '../../postgres/names.js';
import { executor, type Queryable } from '../../postgres/queryable.js';
import type { NewMarker } from '../../workflow/marker.js';
import { openGroup, outcomesOf, stands } from '../../workflow/rows/children.js';
import {
  isDuplicate,
  type Owner,
  progress,
  recordOne,
  restart,
} from '../../workflow/rows/record.js';
import type { NewChildren, TurnPorts, TurnTransaction } from '../../workflow/turn/ports.js';
import type { ContextDeps } from '../run/context-deps.js';
import { jobState, leaseLost } from '../run/handler-context.js';
import type { LeasedJob } from '../run/leased-job.js';
import type { RunsIo } from './runs-io.js';

/** At most so many children are written in one statement. */
const CHUNK = 5_000;

export function portsOf(held: LeasedJob, deps: ContextDeps, io: RunsIo): TurnPorts {
  const { engine, names, pool, ownPool, begin, gate } = deps;
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

  /** The transaction of a step, on the caller's pool. */
  async function transact(marker: Transacted, work: TurnTransaction) {
    const from = io.now();
    try {
      return await withClient(pool, async (client) => {
        let committing = false;
        try {
          await client.query('BEGIN');
          const made = await work(client);
          const written = { ...marker, ...made, ms: Math.round(io.now() - from) };
          const done = await recordOne(executor(client), names, { owner, marker: written });
          if (!done) throw lost(`the transaction "${marker.name}"`);
          if (done.stands) throw new Stands();
          committing = true;
          const ended = await client.query('COMMIT');
          committing = false;
          if (ended?.command === 'ROLLBACK')
            throw jobState(
              `A query that failed broke the transaction "${marker.name}" of run ${id}, so nothing was committed. Wait for every query inside of the transaction.`,
            );
          return { ...made, undoAsked: done.undoAsked };
        } catch (error) {
          await client.query('ROLLBACK').catch((failed: Error) => client.emit('error', failed));
          // Whatever it says: the answer may have been lost with the connection, or have come too late.
          if (committing) throw new Unknown(error);
          throw error;
        }
      });
    } catch (error) {
      if (!(error instanceof Unknown) && !(error instanceof Stands)) throw error;
      const found = await standing(marker, error instanceof Unknown);
      if (found) return found;
      throw error instanceof Unknown ? error.cause : lost(`the transaction "${marker.name}"`);
    }
  }

  /** What stands of a step whose COMMIT may have been done. `wait`: until the transaction that did it has ended. */
  async function standing(marker: Transacted, wait: boolean) {
    const asked = await untilDone(
      io.abandoned,
      async () => {
        const probe = async (tx: Queryable) => {
          const probed = { ...marker, value: null, ms: null, place: 0 };
          await recordOne(executor(tx), names, { owner, marker: probed });
          throw new Probed();
        };
        if (wait)
          await own(probe).catch((error) => {
            if (!(error instanceof Probed) && !isDuplicate(error)) throw error;
          });
        const { markers, undoAsked } = await io.load({ owner });
        const found = markers.find(({ name, place }) => name === marker.name && place !== null);
        return { of: found && { value: found.value, place: found.place as number, undoAsked } };
      },
      (error) => {
        if (!mayPass(error)) throw error;
        io.reportError('looking for a step whose commit is unknown', error);
      },
    );
    return asked?.of;
  }

  return {
    load: () => checked(io.load({ owner })),
    record: (marker) => checked(io.record({ owner, marker })),
    suspend: suspended,
    progress: () => progress(engine, names, owner),
    transact: (marker, work) => checked(transact(marker, work)),
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

type Transacted = Omit<NewMarker, 'value' | 'ms' | 'place'>;

class Unknown extends Error {
  constructor(cause: unknown) {
    super('the commit is unknown', { cause });
  }
}
class Stands extends Error {}
/** Rolls the probe back. */
class Probed extends Error {}
