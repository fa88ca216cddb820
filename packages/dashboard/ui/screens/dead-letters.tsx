/** Dead letters by what they have in common, and all of a group again or gone. */
import { Button, Select, Table } from '@holdfast/lab';
import { useState } from 'preact/hooks';
import { Link, Shown, Title, When } from '../parts/bits';
import { Bulk, type Which } from '../parts/bulk';
import { count } from '../parts/format';
import type { Verb } from '../state/act';
import { useAsked } from '../state/api';
import { snapshot, write } from '../state/live';
import { go, jobsAt, query, withQuery } from '../state/route';
import type { Group } from '../state/wire';

/** As many as the server sends. */
const MAX_GROUPS = 100;
/** And so many of the newest are read. */
const SCANNED = 50_000;
const HEAD = ['Type', 'Error', 'Key', 'Jobs', 'Oldest', 'Newest', 'Example'];

/** In the error of a group `#` stands for numbers and ids; the longest part between them is what a filter can find. */
const findable = (error: string) =>
  error
    .split('#')
    .reduce((best, part) => (part.trim().length > best.length ? part.trim() : best), '');

function whichOf(
  queue: string,
  { type, error, key, jobs, first, example }: Group,
  byKey: boolean,
  seenAt: number,
): Which {
  const text = `dead letters of ${type}${byKey ? ` with key ${key}` : ''}: ${error || 'no error'}`;
  const filter = { status: 'dead_letter', type, ...(byKey && { key }) };
  return { queue, filter, text, group: { like: example, from: first, jobs }, seenAt };
}

function Row(props: { group: Group; which: Which; onAct: (verb: Verb) => void }) {
  const { group, which, onAct } = props;
  const text = findable(group.error);
  // What is shown in place of an error is found nowhere.
  const error = text && !group.redacted && { error: text };
  return (
    <tr>
      <th scope="row">{group.type}</th>
      <td class="error wide">
        <Link to={jobsAt({ queue: which.queue, ...which.filter, ...error })}>
          {group.error || 'no error'}
        </Link>
      </td>
      <td class="key">{group.keys === 1 ? group.key : `${count(group.keys)} keys`}</td>
      <td class="number">{count(group.jobs)}</td>
      <td>
        <When at={group.oldest} />
      </td>
      <td>
        <When at={group.newest} />
      </td>
      <td>
        <Link to={`jobs/${group.example}`} label={`Newest of ${group.type}`}>
          newest
        </Link>
      </td>
      {write.value && (
        <td class="row">
          <Button onClick={() => onAct('retry')}>Redrive…</Button>
          <Button onClick={() => onAct('discard')}>Discard…</Button>
        </td>
      )}
    </tr>
  );
}

export function DeadLetters() {
  const queues = snapshot.value?.queues ?? [];
  const fullest = [...queues].sort((a, b) => b.deadLetter - a.deadLetter)[0];
  const queue = query.value.get('queue') ?? fullest?.queue ?? '';
  const by = query.value.get('by') === 'key' ? 'key' : '';
  const list = new URLSearchParams({ queue, ...(by && { by }) });
  const asked = useAsked<{ groups: readonly Group[] }>(queue && `api/dead-letters?${list}`, 3);
  const [bulk, setBulk] = useState<{ verb: Verb; which: Which } | null>(null);
  return (
    <>
      <Title
        aside={
          <span class="row">
            <Select
              label="Queue"
              value={queue}
              options={queues.map((one) => [one.queue, `${one.queue} (${count(one.deadLetter)})`])}
              onChange={(to) => go(withQuery({ queue: to }))}
            />
            <Select
              label="By"
              value={by}
              options={[
                ['', 'type and error'],
                ['key', 'type, error and key'],
              ]}
              onChange={(to) => go(withQuery({ by: to }))}
            />
          </span>
        }
      >
        Dead letters
      </Title>
      <Shown of={asked}>
        {({ groups }) => (
          <Table
            label="Groups of dead letters"
            head={write.value ? [...HEAD, 'Acts'] : HEAD}
            numbers={[3]}
            empty={`There is no dead letter in ${queue}: nothing has failed for good.`}
          >
            {groups.map((group) => {
              const which = whichOf(queue, group, by === 'key', asked.askedAt);
              return (
                <Row
                  key={`${group.type} ${group.error} ${by && group.key}`}
                  {...{ group, which }}
                  onAct={(verb) => setBulk({ verb, which })}
                />
              );
            })}
          </Table>
        )}
      </Shown>
      {(queues.find((one) => one.queue === queue)?.deadLetter ?? 0) > SCANNED && (
        <p class="dim">{`These are the newest ${count(SCANNED)} dead letters, and acts are on those.`}</p>
      )}
      {asked.data?.groups.length === MAX_GROUPS && (
        <p class="dim">{`These are the ${MAX_GROUPS} largest groups; there may be more.`}</p>
      )}
      {bulk && <Bulk {...bulk} onClose={() => setBulk(null)} />}
    </>
  );
}
