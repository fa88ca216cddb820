/**
 * The transaction of a step, on the caller's pool: its writes and its marker commit together. If the connection is lost, nobody
 * knows whether the COMMIT was done, until what stands is looked up. If it was not, that is not the fault of the step.
 */
import { isA } from '../../job/errors/failure.js';
import { untilDone } from '../../postgres/connect/backoff.js';
import { lend } from '../../postgres/connect/lent-client.js';
import { mayPass, withClient } from '../../postgres/connect/pool.js';
import { isOutage } from '../../postgres/connect/transient.js';
import { executor, type Queryable } from '../../postgres/queryable.js';
import { isDuplicate, type Owner, recordOne } from '../../workflow/rows/record.js';
import { ConnectionLost, type TurnPorts } from '../../workflow/turn/ports.js';
import type { ContextDeps } from '../run/context-deps.js';
import { jobState } from '../run/handler-context.js';
import type { RunsIo } from './runs-io.js';

type Transacted = Parameters<TurnPorts['transact']>[0];
type Work = Parameters<TurnPorts['transact']>[1];

export interface TransactDeps {
  readonly deps: ContextDeps;
  readonly io: RunsIo;
  readonly owner: Owner;
  /** A transaction on a connection of the worker's own. */
  readonly own: <Value>(work: (tx: Queryable) => Promise<Value>) => Promise<Value>;
  readonly lost: (doing: string) => Error;
}

export async function transactStep(of: TransactDeps, marker: Transacted, work: Work) {
  const { deps, io, owner, lost } = of;
  const what = `the transaction "${marker.name}" of run ${owner.id}`;
  const from = io.now();
  let connected = false;
  try {
    return await withClient(deps.pool, async (client) => {
      connected = true;
      let committing = false;
      let ended: unknown = null;
      const onError = (error: Error) => {
        ended ??= error;
      };
      client.on('error', onError);
      const lent = lend(client, what);
      try {
        await client.query('BEGIN');
        const made = await work(lent.tx).finally(lent.end);
        const written = { ...marker, ...made, ms: Math.round(io.now() - from) };
        const done = await recordOne(executor(client), deps.names, { owner, marker: written });
        if (!done) throw lost(`the transaction "${marker.name}"`);
        if (done.stands) throw new Stands();
        committing = true;
        const answer = await client.query('COMMIT');
        committing = false;
        if (answer?.command === 'ROLLBACK')
          throw jobState(
            `A query that failed broke ${what}, so nothing was committed. Wait for every query inside of the transaction.`,
          );
        return { ...made, undoAsked: done.undoAsked };
      } catch (error) {
        const isGone = await client.query('ROLLBACK').then(
          () => false,
          (failed: Error) => client.emit('error', failed),
        );
        const why = isGone && isOutage(error) ? asLost(error, ended) : error;
        // Whatever it says: the answer may have been lost with the connection, or have come too late.
        if (committing) throw new Unknown(why);
        throw why;
      } finally {
        client.off('error', onError);
      }
    });
  } catch (error) {
    if (!connected && mayPass(error)) throw asLost(error, null);
    if (!isA(error, Unknown) && !isA(error, Stands)) throw error;
    const found = await standing(of, marker, isA(error, Unknown));
    if (found) return found;
    throw isA(error, Unknown) ? error.cause : lost(`the transaction "${marker.name}"`);
  }
}

/** The server ends a session that is idle in its transaction, or in it for too long: that is the step's doing. */
const OWN_DOING = /^(25P0[34]|57P05)$/;

/** `ended`: what the server said when it ended the session. */
function asLost(error: unknown, ended: unknown): unknown {
  const { code } = (ended ?? {}) as { code?: unknown };
  return typeof code === 'string' && OWN_DOING.test(code) ? ended : new ConnectionLost(error);
}

/** What stands of a step whose COMMIT may have been done. `wait`: until the transaction that did it has ended. */
async function standing({ deps, io, owner, own }: TransactDeps, marker: Transacted, wait: boolean) {
  const asked = await untilDone(
    io.abandoned,
    async () => {
      const probe = async (tx: Queryable) => {
        const probed = { ...marker, value: null, ms: null, place: 0 };
        await recordOne(executor(tx), deps.names, { owner, marker: probed });
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

class Unknown extends Error {
  constructor(cause: unknown) {
    super('the commit is unknown', { cause });
  }
}
class Stands extends Error {}
/** Rolls the probe back. */
class Probed extends Error {}
