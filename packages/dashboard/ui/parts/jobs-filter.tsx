/** The form above the list of jobs. What it asks for becomes the address. */
import { Field, Select } from '@holdfast/lab';
import { snapshot } from '../state/live';
import { go, query, withQuery } from '../state/route';
import { Search } from './bits';
import { stateText } from './format';

const STATUSES = ['pending', 'processing', 'dead_letter', 'completed', 'cancelled', 'discarded'];
const AGES: readonly [string, string][] = [
  ['', 'any age'],
  ['newer 5m', 'newer than 5 min'],
  ['newer 1h', 'newer than 1 h'],
  ['newer 1d', 'newer than 1 day'],
  ['older 5m', 'older than 5 min'],
  ['older 1h', 'older than 1 h'],
  ['older 1d', 'older than 1 day'],
];
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

function wanted(text: (name: string) => string): string {
  // A key may look like an id: one that is searched for already is a key.
  if (ID.test(text('key')) && text('key') !== query.peek().get('key'))
    return `jobs/${text('key').toLowerCase()}`;
  const [age, time] = text('age').split(' ');
  return withQuery({
    ...{ queue: text('queue'), status: text('status'), type: text('type'), key: text('key') },
    ...{ error: text('error'), order: text('order'), after: null, newer: null, older: null },
    ...(age && { [age]: time ?? null }),
  });
}

export function Filter() {
  const asked = (name: string) => query.value.get(name) ?? '';
  const seen = snapshot.value;
  const queues = seen ? [...seen.queues, ...seen.unreadable].map(({ queue }) => queue) : ['inbox'];
  const age = ['newer', 'older'].find(asked);
  return (
    <Search onSearch={(text) => go(wanted(text))}>
      <Select label="Queue" name="queue" value={asked('queue') || 'inbox'} options={queues} />
      <Select
        label="Status"
        name="status"
        value={asked('status')}
        options={[['', 'in the queue'], ...STATUSES.map((one) => [one, stateText(one)] as const)]}
      />
      <Field
        label="Key or id"
        name="key"
        data-search=""
        defaultValue={asked('key')}
        placeholder="order:9182"
      />
      <Field label="Type" name="type" defaultValue={asked('type')} />
      <Field label="Error holds" name="error" defaultValue={asked('error')} />
      <Select label="Age" name="age" value={age && `${age} ${asked(age)}`} options={AGES} />
      <Select
        label="Order"
        name="order"
        value={asked('order')}
        options={[
          ['', 'newest first'],
          ['oldest', 'oldest first'],
        ]}
      />
    </Search>
  );
}
