/** Jobs of a queue or of its archive. The filter is the address, so a search can be sent to somebody. */
import { useEffect, useState } from 'preact/hooks';
import { Empty, Failed, Link, Status, Table, Title, Waiting, When } from '../parts/bits';
import { Bulk } from '../parts/bulk';
import { firstLine, stateText } from '../parts/format';
import { actOn, type Verb } from '../state/act';
import { useAsked } from '../state/api';
import { session, snapshot } from '../state/live';
import { go, query, withQuery } from '../state/route';
import type { JobsPage, ListedJob } from '../state/wire';

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
const PARTS = ['status', 'type', 'key', 'error', 'older', 'newer'];
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
/** Which verb does anything to a job in this state. */
const VERBS: Readonly<Record<string, readonly Verb[]>> = {
  pending: ['cancel'],
  processing: ['cancel'],
  dead_letter: ['retry', 'discard'],
};
const NAMES: Readonly<Record<Verb, string>> = {
  retry: 'Retry',
  discard: 'Discard',
  cancel: 'Cancel',
};

function Filter() {
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

/** When it is due, until when it is leased, or when it ended. */
function Time({ job }: { job: ListedJob }) {
  if (job.completedAt) return <When at={job.completedAt} />;
  if (job.status === 'processing')
    return (
      <>
        lease ends <When at={job.leaseExpiresAt} />
      </>
    );
  if (job.status === 'pending' && job.runAt)
    return (
      <>
        due <When at={job.runAt} />
      </>
    );
  return <span class="dim">–</span>;
}

function Row(props: {
  job: ListedJob;
  picked: boolean;
  onPick: ((picked: boolean) => void) | null;
}) {
  const { job, picked, onPick } = props;
  return (
    <tr>
      {onPick && (
        <td>
          <input
            type="checkbox"
            checked={picked}
            aria-label={`Select ${job.id}`}
            onChange={(event) => onPick(event.currentTarget.checked)}
          />
        </td>
      )}
      <td>
        <Status of={job.status} />
      </td>
      <th scope="row">
        <Link to={`jobs/${job.id}`}>{job.type}</Link>
      </th>
      <td class="key">{job.partitionKey}</td>
      <td class="number">{`${job.attempts} / ${job.maxAttempts}`}</td>
      <td>
        <When at={job.createdAt} />
      </td>
      <td>
        <Time job={job} />
      </td>
      <td class="key">{job.claimedBy ?? ''}</td>
      <td class="error" title={job.lastError ?? undefined}>
        {firstLine(job.lastError)}
      </td>
    </tr>
  );
}

function filterText(filter: Readonly<Record<string, string>>): string {
  const { status, ...rest } = filter;
  const parts = Object.entries(rest).map(([name, value]) => `${name} ${value}`);
  return `all ${stateText(status ?? '')} jobs${parts.length > 0 ? ` with ${parts.join(', ')}` : ''}`;
}

export function Jobs() {
  const asked = query.value;
  const queue = asked.get('queue') ?? 'inbox';
  // A search that has found nothing reads for a second: it goes on when somebody asks for more.
  const { data, error } = useAsked<JobsPage>(`api/jobs?${asked}`, (page) =>
    asked.has('after') || (page?.next && page.jobs.length === 0) ? 0 : 2,
  );
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set());
  const [bulk, setBulk] = useState<Verb | null>(null);
  const address = asked.toString();
  // With another filter the question would be about other jobs than were counted.
  useEffect(() => {
    setPicked(new Set());
    setBulk(null);
  }, [address]);
  const write = session.value?.write === true;
  const status = asked.get('status') ?? '';
  const filter = Object.fromEntries(
    [...asked].filter(([name, value]) => PARTS.includes(name) && value),
  );
  const verbs = VERBS[status] ?? [];
  const shown = data?.jobs ?? [];
  const chosen = shown.filter(({ id }) => picked.has(id));
  const possible = [...new Set(chosen.flatMap((job) => VERBS[job.status] ?? []))];
  const pick = (ids: readonly string[], on: boolean) =>
    setPicked((old) => new Set(on ? [...old, ...ids] : [...old].filter((id) => !ids.includes(id))));
  const actPicked = async (verb: Verb) => {
    const ids = chosen.filter((job) => VERBS[job.status]?.includes(verb)).map(({ id }) => id);
    if (await actOn(verb, queue, ids)) setPicked(new Set());
  };
  const all = shown.length > 0 && chosen.length === shown.length;
  const box = (
    <input
      type="checkbox"
      checked={all}
      aria-label="Select all on this page"
      onChange={() =>
        pick(
          shown.map(({ id }) => id),
          !all,
        )
      }
    />
  );
  const head = ['Status', 'Type', 'Key', 'Attempts', 'Made', 'Time', 'Worker', 'Error'];
  return (
    <>
      <Title>Jobs</Title>
      <Filter />
      {write && (
        <div class="row acts" role="toolbar" aria-label="Acts">
          {chosen.length > 0 ? (
            <>
              <span>{chosen.length} selected</span>
              {possible.map((verb) => (
                <button type="button" onClick={() => void actPicked(verb)}>
                  {NAMES[verb]}
                </button>
              ))}
            </>
          ) : verbs.length > 0 ? (
            <>
              <span class="dim">All that match:</span>
              {verbs.map((verb) => (
                <button
                  type="button"
                  disabled={shown.length === 0 && !data?.next}
                  onClick={() => setBulk(verb)}
                >
                  {`${NAMES[verb]} all…`}
                </button>
              ))}
            </>
          ) : (
            <span class="dim">Select jobs, or choose a status to act on all that match.</span>
          )}
        </div>
      )}
      <Failed error={error} />
      {data === null ? (
        error === null && <Waiting />
      ) : shown.length === 0 ? (
        <Empty>
          {data.next === null
            ? 'No job matches.'
            : 'Nothing found so far. The search is not at its end.'}
        </Empty>
      ) : (
        <Table label="Jobs" head={write ? [box, ...head] : head} numbers={[write ? 4 : 3]}>
          {shown.map((job) => (
            <Row
              key={job.id}
              job={job}
              picked={picked.has(job.id)}
              onPick={write ? (on) => pick([job.id], on) : null}
            />
          ))}
        </Table>
      )}
      <nav class="row pages" aria-label="Pages">
        {asked.has('after') && <Link to={withQuery({ after: null })}>First page</Link>}
        {data?.next && (
          <Link to={withQuery({ after: data.next })}>
            {shown.length === 0 ? 'Search on' : 'Next page'}
          </Link>
        )}
      </nav>
      {bulk && (
        <Bulk
          verb={bulk}
          which={{ queue, filter, text: filterText(filter) }}
          onClose={() => setBulk(null)}
        />
      )}
    </>
  );
}
