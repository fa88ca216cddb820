/** One attempt of a run is one turn of its body. How the turn ends is what the attempt comes to. */
import { Cancel, DeadLetter, Snooze } from '../../job/errors/errors.js';
import { flowOf } from '../../workflow/turn/flow-of.js';
import { Turn } from '../../workflow/turn/turn.js';
import type { JobContext } from '../run/context.js';
import type { ContextDeps } from '../run/context-deps.js';
import type { WorkflowRoute } from '../run/handler-context.js';
import { portsOf } from './ports.js';

/** Thrown by a turn that ended without an outcome: the run waits, and its row says for what. */
export class TurnOver {
  /** Until a time comes for which the run waits; null: there is none. */
  readonly dueInMs: number | null;
  constructor(dueInMs: number | null) {
    this.dueInMs = dueInMs;
  }
}

/** A version that nobody here has a body for waits for so long until it is looked at again. */
const NO_BODY_MS = 30_000;

export async function takeTurn(
  context: JobContext<unknown>,
  { bodies, definition }: WorkflowRoute,
  deps: ContextDeps,
): Promise<unknown> {
  const { held } = context;
  const { version, attempts, crashes } = held.row;
  const body = bodies.get(version);
  const { runsIo } = deps;
  if (!body || !runsIo) {
    const text = `no body for version ${version} of the workflow "${context.type}"`;
    throw new Snooze(NO_BODY_MS, text);
  }
  const turn = new Turn(
    {
      ...{ id: context.id, type: context.type, version, attempt: attempts, crashes },
      maxAttempts: context.maxAttempts,
      isNew: held.generation === 1,
      createdAt: context.createdAt,
      headers: context.headers,
      get signal() {
        return context.signal;
      },
      log: context.log,
      maxBytes: deps.maxPayloadBytes,
    },
    portsOf(held, deps, runsIo),
  );
  const flow = flowOf(turn, definition as never);
  // A lost run or a stopping worker ends the turn, whatever its body waits for.
  const stop = () => turn.stop({ kind: 'threw', error: context.signal.reason });
  if (context.signal.aborted) stop();
  else context.signal.addEventListener('abort', stop, { once: true });
  const end = await turn.run(() => body(flow as never, context.payload as never));
  switch (end.kind) {
    case 'returned':
      return end.value;
    case 'threw':
      throw end.error;
    case 'asleep':
      throw new TurnOver(end.dueInMs);
    case 'restarted':
      throw new TurnOver(0);
    case 'dead':
      throw new DeadLetter(end.error.message, { cause: end.error });
    case 'cancelled':
      throw new Cancel(end.reason);
  }
}
