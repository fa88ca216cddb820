/** A limit, set by an operator: it holds at once and through deploys, until it is reset. */
import { useState } from 'preact/hooks';
import type { SeenLimit } from '../../src/read/limits.js';
import { doing } from '../state/act';
import { post } from '../state/api';
import { Dialog } from './dialog';

const UNITS: readonly [string, number][] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
  ['ms', 1],
];

/** As it is typed: `1m`. */
function duration(ms: number): string {
  const [unit, size] = UNITS.find(([, one]) => ms % one === 0) as [string, number];
  return `${ms / size}${unit}`;
}

interface Props {
  /** Null: a new one. */
  readonly limit: SeenLimit | null;
  readonly queues: readonly string[];
  readonly onClose: () => void;
}

export function LimitDialog({ limit, queues, onClose }: Props) {
  const [error, setError] = useState<string | null>(null);
  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const text = (name: string) => String(form.get(name) ?? '').trim();
    const number = (name: string) => (text(name) === '' ? undefined : Number(text(name)));
    const rate = text('starts') && {
      rate: { limit: number('starts'), per: text('per'), burst: number('burst') },
    };
    const concurrency = number('concurrency');
    if (!rate && concurrency === undefined) {
      setError('Say how many may run at once, or how many may start in a time.');
      return;
    }
    const of = { queue: limit?.queue ?? text('queue'), type: limit ? limit.type : text('type') };
    const wanted = { ...(concurrency !== undefined && { concurrency }), ...rate };
    const done = await doing(async () => {
      const body = { verb: 'set', ...of, limit: wanted, reason: text('reason') };
      await post('api/limits/act', body);
      return 'The limit is in force.';
    });
    if (done) onClose();
  }
  const { concurrency = null, rate = null } = limit ?? {};
  return (
    <Dialog title={limit ? 'Change the limit' : 'Set a limit'} onClose={onClose}>
      <form class="stack" onSubmit={(event) => void submit(event)}>
        {error && (
          <p class="failed" role="alert">
            {error}
          </p>
        )}
        {limit ? (
          <p>{`Of ${limit.type ?? 'all jobs'} in ${limit.queue}. It holds at once, and deploys do not undo it.`}</p>
        ) : (
          <>
            <label class="field">
              Queue
              <select name="queue" required>
                {queues.map((name) => (
                  <option>{name}</option>
                ))}
              </select>
            </label>
            <label class="field">
              Job type (empty: the whole queue)
              <input name="type" maxLength={200} />
            </label>
          </>
        )}
        <label class="field">
          Run at once, at most
          <input name="concurrency" type="number" min="1" defaultValue={concurrency ?? ''} />
        </label>
        <div class="row">
          <label class="field grow">
            Start, at most
            <input name="starts" type="number" min="1" defaultValue={rate?.limit ?? ''} />
          </label>
          <label class="field grow">
            in
            <input name="per" defaultValue={rate ? duration(rate.perMs) : '1m'} />
          </label>
          <label class="field grow">
            burst
            <input name="burst" type="number" min="1" defaultValue={rate?.burst ?? ''} />
          </label>
        </div>
        <label class="field">
          Why (kept in the audit)
          <input name="reason" maxLength={500} />
        </label>
        <div class="row end">
          <button type="button" onClick={onClose}>
            Leave it
          </button>
          <button type="submit" class="primary">
            Set the limit
          </button>
        </div>
      </form>
    </Dialog>
  );
}
