/** Signals: rows that a wait of a run takes, one by one, in the order in which they were sent (functions/workflow). */
import { HoldfastError } from '../../job/errors/errors.js';
import { checkIds } from '../../job/id.js';
import { inQueue } from '../../postgres/in-queue.js';
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { bool, int4, plainArray, statement, text, uuid } from '../../postgres/statement.js';

export interface NewSignal {
  readonly run: string;
  /** The workflow that the run must be of. Default: any. */
  readonly type?: string;
  readonly name: string;
  /** JSON; null: none. */
  readonly value: string | null;
  readonly key: string | null;
  /** It commits by itself, so the run is woken at once. In a transaction that goes on, a worker wakes it after the commit. */
  readonly now: boolean;
}

export const sendSignal = statement({
  name: 'send_signal',
  text: `
SELECT holdfast.inbox_signal($1::text::uuid, $2::text, $3::text::jsonb, $4::text, $5::text::boolean, $6::text)::text AS sent`,
  columns: { sent: text },
});

/** False: a signal with this key was sent to the run before. */
export async function send(db: Executor, names: Names, signal: NewSignal): Promise<boolean> {
  const { run, type, name, value, key, now } = signal;
  const params = [run, name, value, key, String(now), type ?? null];
  try {
    const [row] = await inQueue(names, db.run(sendSignal, names, params));
    return row?.sent === 'true';
  } catch (error) {
    const { code, message } = error as { code?: unknown; message?: string };
    if (code === 'HF002')
      throw new HoldfastError('SIGNAL_UNKNOWN', `The signal "${name}" was refused: ${message}.`, {
        cause: error,
      });
    if (code !== 'HF007') throw error;
    throw new HoldfastError(
      'RUN_GONE',
      `There is no run ${run} in queue "${names.queue}": it has ended, or it never was, so the signal "${name}" was not sent. ` +
        'Check the id and the queue; `hf.wait(id)` says how a run has ended.',
      { cause: error },
    );
  }
}

export const wakeSignalled = statement({
  name: 'wake_signalled',
  text: 'SELECT holdfast.inbox_wake_signalled($1::integer) AS seen',
  columns: { seen: int4 },
});

/** Wakes runs to which signals were sent in transactions that have committed since. Returns how many signals it saw. */
export async function wakeRuns(db: Executor, names: Names, most: number): Promise<number> {
  const [row] = await db.run(wakeSignalled, names, [most]);
  return row?.seen ?? 0;
}

export const askUndo = statement({
  name: 'ask_undo',
  text: `
WITH asked AS (
  UPDATE holdfast.inbox AS i SET undo_asked = $2::text
  WHERE i.id = ANY ((SELECT $1::text::uuid[])::uuid[]) AND i.status IN ('pending', 'processing')
    AND EXISTS (SELECT FROM holdfast.inbox_steps AS s WHERE s.run_id = i.id)
  RETURNING i.id
)
SELECT a.id, holdfast.wake_run('inbox', a.id) AS woken FROM asked AS a`,
  columns: { id: uuid, woken: bool },
});

/** Returns those that are to undo what they did. The others are not there, or have done nothing. */
export async function askToUndo(
  db: Executor,
  names: Names,
  runs: readonly string[],
  reason: string,
): Promise<string[]> {
  const params = [plainArray(checkIds(runs)), reason];
  return (await inQueue(names, db.run(askUndo, names, params))).map(({ id }) => id);
}
