/** Dead letters by what they have in common, and all of a group again or gone. */
import { useState } from 'preact/hooks';
import { Empty, Failed, Link, Table, Title, Waiting, When } from '../parts/bits';
import { Bulk, type Which } from '../parts/bulk';
import { count } from '../parts/format';
import type { Verb } from '../state/act';
import { useAsked } from '../state/api';
import { session, snapshot } from '../state/live';
import { go, query, withQuery } from '../state/route';
import type { Group } from '../state/wire';

/** As many as the server sends. */
const MAX_GROUPS = 100;
/** And so many of the newest are read. */
const SCANNED = 50_000;

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

export function DeadLetters() {
  const queues = snapshot.value?.queues ?? [];
  const fullest = [...queues].sort((a, b) => b.deadLetter - a.deadLetter)[0];
  const queue = query.value.get('queue') ?? fullest?.queue ?? null;
  const byKey = query.value.get('by') === 'key';
  const { data, error, askedAt } = useAsked<{ groups: readonly Group[] }>(
    queue === null
      ? null
      : `api/dead-letters?queue=${encodeURIComponent(queue)}${byKey ? '&by=key' : ''}`,
    3,
  );
  const [bulk, setBulk] = useState<{ verb: Verb; which: Which } | null>(null);
  const write = session.value?.write === true;
  const head = [
    'Type',
    'Error',
    'Key',
    'Jobs',
    'Oldest',
    'Newest',
    'Example',
    ...(write ? ['Acts'] : []),
  ];
  return (
    <>
      <Title
        aside={
          <span class="row">
            <label>
              Queue{' '}
              <select
                value={queue ?? ''}
                onChange={(event) => go(withQuery({ queue: event.currentTarget.value }))}
              >
                {queues.map((one) => (
                  <option value={one.queue}>{`${one.queue} (${count(one.deadLetter)})`}</option>
                ))}
              </select>
            </label>
            <label>
              By{' '}
              <select
                value={byKey ? 'key' : ''}
                onChange={(event) => go(withQuery({ by: event.currentTarget.value }))}
              >
                <option value="">type and error</option>
                <option value="key">type, error and key</option>
              </select>
            </label>
          </span>
        }
      >
        Dead letters
      </Title>
      <Failed error={error} />
      {!data || queue === null ? (
        error === null && <Waiting />
      ) : data.groups.length === 0 ? (
        <Empty>{`There is no dead letter in ${queue}: nothing has failed for good.`}</Empty>
      ) : (
        <Table label="Groups of dead letters" head={head} numbers={[3]}>
          {data.groups.map((group) => {
            const which = whichOf(queue, group, byKey, askedAt);
            const list = new URLSearchParams({ queue, ...which.filter });
            const text = findable(group.error);
            // What is shown in place of an error is found nowhere.
            if (text && !group.redacted) list.set('error', text);
            return (
              <tr key={`${group.type} ${group.error} ${byKey ? group.key : ''}`}>
                <th scope="row">{group.type}</th>
                <td class="error wide">
                  <Link to={`jobs?${list}`}>{group.error || 'no error'}</Link>
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
                {write && (
                  <td class="row">
                    <button type="button" onClick={() => setBulk({ verb: 'retry', which })}>
                      Redrive…
                    </button>
                    <button type="button" onClick={() => setBulk({ verb: 'discard', which })}>
                      Discard…
                    </button>
                  </td>
                )}
              </tr>
            );
          })}
        </Table>
      )}
      {(queues.find((one) => one.queue === queue)?.deadLetter ?? 0) > SCANNED && (
        <p class="dim">{`These are the newest ${count(SCANNED)} dead letters, and acts are on those.`}</p>
      )}
      {data?.groups.length === MAX_GROUPS && (
        <p class="dim">{`These are the ${MAX_GROUPS} largest groups; there may be more.`}</p>
      )}
      {bulk && <Bulk {...bulk} onClose={() => setBulk(null)} />}
    </>
  );
}
