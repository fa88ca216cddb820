/** A limit, set by an operator: it holds at once and through deploys, until it is reset. */
import { Button, Field, Select } from '@holdfast/lab';
import { useState } from 'preact/hooks';
import type { SeenLimit } from '../../src/read/limits.js';
import { send } from '../state/act';
import { Count, Dialog, Failed, textsOf } from './bits';
import { duration } from './format';

interface Props {
  /** Null: a new one. */
  readonly limit: SeenLimit | null;
  readonly queues: readonly string[];
  readonly onClose: () => void;
}

export function LimitDialog({ limit, queues, onClose }: Props) {
  const [error, setError] = useState<string | null>(null);
  async function submit(event: SubmitEvent): Promise<void> {
    const text = textsOf(event);
    const number = (name: string) => (text(name) === '' ? undefined : Number(text(name)));
    const rate = text('starts') && {
      rate: { limit: number('starts'), per: text('per'), burst: number('burst') },
    };
    const concurrency = number('concurrency');
    if (!rate && concurrency === undefined)
      return setError('Say how many may run at once, or how many may start in a time.');
    const of = { queue: limit?.queue ?? text('queue'), type: limit ? limit.type : text('type') };
    const wanted = { ...(concurrency !== undefined && { concurrency }), ...rate };
    const body = { verb: 'set', ...of, limit: wanted, reason: text('reason') };
    if (await send('api/limits/act', body, 'The limit is in force.')) onClose();
  }
  const { concurrency = null, rate = null } = limit ?? {};
  return (
    <Dialog title={limit ? 'Change the limit' : 'Set a limit'} onClose={onClose}>
      <form class="stack" onSubmit={(event) => void submit(event)}>
        <Failed error={error} />
        {limit ? (
          <p>{`Of ${limit.type ?? 'all jobs'} in ${limit.queue}. It holds at once, and deploys do not undo it.`}</p>
        ) : (
          <>
            <Select class="field" label="Queue" name="queue" options={queues} />
            <Field
              class="field"
              label="Job type (empty: the whole queue)"
              name="type"
              maxLength={200}
            />
          </>
        )}
        <Count label="Run at once, at most" name="concurrency" value={concurrency} />
        <div class="row">
          <Count label="Start, at most" name="starts" value={rate?.limit} />
          <Field
            {...{ class: 'field grow', label: 'in', name: 'per' }}
            defaultValue={rate ? duration(rate.perMs) : '1m'}
          />
          <Count label="burst" name="burst" value={rate?.burst} />
        </div>
        <Field class="field" label="Why (kept in the audit)" name="reason" maxLength={500} />
        <div class="row end">
          <Button onClick={onClose}>Leave it</Button>
          <button type="submit" class="primary">
            Set the limit
          </button>
        </div>
      </form>
    </Dialog>
  );
}
