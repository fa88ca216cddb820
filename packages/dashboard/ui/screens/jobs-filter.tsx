/** The form above the list of jobs. What it asks for becomes the address. */
import { stateText } from '../parts/format';
import { snapshot } from '../state/live';
import { go, query, withQuery } from '../state/route';

const STATUSES = ['pending', 'processing', 'dead_letter', 'completed', 'cancelled', 'discarded'];
const AGES: readonly [string, string, string][] = [
  ['', '', 'any age'],
  ['newer', '5m', 'newer than 5 min'],
  ['newer', '1h', 'newer than 1 h'],
  ['newer', '1d', 'newer than 1 day'],
  ['older', '5m', 'older than 5 min'],
  ['older', '1h', 'older than 1 h'],
  ['older', '1d', 'older than 1 day'],
];
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export function Filter() {
  const asked = query.value;
  const seen = snapshot.value;
  const queues = seen ? [...seen.queues, ...seen.unreadable].map(({ queue }) => queue) : ['inbox'];
  const age = ['newer', 'older'].map((name) => [name, asked.get(name)]).find(([, value]) => value);
  function submit(event: SubmitEvent): void {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const text = (name: string) => String(form.get(name) ?? '').trim();
    // A key may look like an id: one that is searched for already is a key.
    if (ID.test(text('key')) && text('key') !== asked.get('key')) {
      go(`jobs/${text('key').toLowerCase()}`);
      return;
    }
    const [ageName, ageValue] = text('age').split(' ');
    go(
      withQuery({
        ...{ queue: text('queue'), status: text('status'), type: text('type'), key: text('key') },
        ...{ error: text('error'), order: text('order'), after: null, newer: null, older: null },
        ...(ageName && { [ageName]: ageValue ?? null }),
      }),
    );
  }
  const change = (event: Event) => (event.currentTarget as HTMLSelectElement).form?.requestSubmit();
  return (
    <search>
      <form class="filter" onSubmit={submit} key={asked.toString()}>
        <label>
          Queue
          <select name="queue" onChange={change}>
            {queues.map((name) => (
              <option selected={name === (asked.get('queue') ?? 'inbox')}>{name}</option>
            ))}
          </select>
        </label>
        <label>
          Status
          <select name="status" onChange={change}>
            <option value="">in the queue</option>
            {STATUSES.map((name) => (
              <option value={name} selected={asked.get('status') === name}>
                {stateText(name)}
              </option>
            ))}
          </select>
        </label>
        <label>
          Key or id
          <input
            name="key"
            data-search=""
            defaultValue={asked.get('key') ?? ''}
            placeholder="order:9182"
          />
        </label>
        <label>
          Type
          <input name="type" defaultValue={asked.get('type') ?? ''} />
        </label>
        <label>
          Error holds
          <input name="error" defaultValue={asked.get('error') ?? ''} />
        </label>
        <label>
          Age
          <select name="age" onChange={change}>
            {AGES.map(([name, value, text]) => (
              <option
                value={`${name} ${value}`.trim()}
                selected={age?.[0] === name && age[1] === value}
              >
                {text}
              </option>
            ))}
          </select>
        </label>
        <label>
          Order
          <select name="order" onChange={change}>
            <option value="">newest first</option>
            <option value="oldest" selected={asked.get('order') === 'oldest'}>
              oldest first
            </option>
          </select>
        </label>
        <button type="submit">Search</button>
      </form>
    </search>
  );
}
