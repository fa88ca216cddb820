/** An endpoint of webhooks, changed. Of its headers only the names are known: all of them are replaced, or they stay. */
import { Button, Field } from '@holdfast/lab';
import { useState } from 'preact/hooks';
import { send } from '../state/act';
import type { SeenEndpoint } from '../state/wire';
import { Count, Dialog, Failed, textsOf } from './bits';
import { duration } from './format';

/** Undefined: it is no JSON object. */
function headersOf(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  } catch {}
  return undefined;
}

/** What differs: what stays as it was is not sent, so that nobody's change is undone. */
function changesOf(of: SeenEndpoint, text: (name: string) => string): Record<string, unknown> {
  const number = (name: string) => (text(name) === '' ? undefined : Number(text(name)));
  const { url, concurrency, rate } = of;
  const events = text('events')
    .split(/[\s,]+/)
    .filter(Boolean);
  const limit = number('limit');
  const next = limit === undefined ? null : { limit, per: text('per'), burst: number('burst') };
  const was = rate && { limit: rate.limit, per: duration(rate.perMs), burst: rate.burst };
  const differs = (one: unknown, other: unknown) => JSON.stringify(one) !== JSON.stringify(other);
  return {
    ...(text('url') !== url && { url: text('url') }),
    ...(differs(events, of.events) && { events }),
    ...(!of.ordered &&
      number('concurrency') !== concurrency && { concurrency: number('concurrency') }),
    ...(differs(next, was) && { rate: next }),
    ...(text('headers') !== '' && { headers: headersOf(text('headers')) }),
  };
}

export function EndpointDialog(props: { of: SeenEndpoint; onClose: () => void }) {
  const { onClose } = props;
  // As it was shown: somebody else may change it meanwhile.
  const [of] = useState(props.of);
  const [error, setError] = useState<string | null>(null);
  async function submit(event: SubmitEvent): Promise<void> {
    const text = textsOf(event);
    const changes = changesOf(of, text);
    if ('headers' in changes && changes.headers === undefined)
      return setError('The headers are no JSON object, such as {"authorization": "Bearer …"}.');
    if (Object.keys(changes).length === 0) return onClose();
    const body = { verb: 'set', changes, reason: text('reason') };
    const told = ({ headers }: { headers: readonly string[] }) =>
      of.headers.length > 0 && headers.length === 0 && !('headers' in changes)
        ? 'The endpoint is changed. The headers of the old origin are gone.'
        : 'The endpoint is changed.';
    if (await send(`api/webhooks/${of.id}/act`, body, told)) onClose();
  }
  const { rate } = of;
  const kept = of.headers.length > 0 ? `empty: ${of.headers.join(', ')} stay` : 'empty: none';
  return (
    <Dialog title="Change the endpoint" onClose={onClose}>
      <form class="stack" onSubmit={(event) => void submit(event)}>
        <Failed error={error} />
        <Field class="field" label="URL" name="url" type="url" defaultValue={of.url} required />
        <Field
          {...{ class: 'field', label: 'Events', name: 'events', required: true }}
          defaultValue={of.events.join(', ')}
        />
        {!of.ordered && (
          <Count label="Requests at once" name="concurrency" value={of.concurrency} />
        )}
        <div class="row">
          <Count label="Requests, at most" name="limit" value={rate?.limit} />
          <Field
            {...{ class: 'field grow', label: 'in', name: 'per' }}
            defaultValue={rate ? duration(rate.perMs) : '1m'}
          />
          <Count label="burst" name="burst" value={rate?.burst} />
        </div>
        <Field
          {...{ class: 'field', label: `Headers, as JSON (${kept})`, name: 'headers' }}
          {...{ autocomplete: 'off', spellcheck: false }}
        />
        <p class="dim">Another origin gets the headers only if you give them here.</p>
        <Field class="field" label="Why (kept in the audit)" name="reason" maxLength={500} />
        <div class="row end">
          <Button onClick={onClose}>Leave it</Button>
          <button type="submit" class="primary">
            Change it
          </button>
        </div>
      </form>
    </Dialog>
  );
}
