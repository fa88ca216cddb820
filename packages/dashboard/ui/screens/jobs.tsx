/** Jobs of a queue or of its archive. The filter is the address, so a search can be sent to somebody. */
import { useEffect, useState } from 'preact/hooks';
import { Empty, Failed, Link, Status, Table, Title, Waiting, When } from '../parts/bits';
import { Bulk } from '../parts/bulk';
import { firstLine, stateText } from '../parts/format';
import { actOn, type Verb } from '../state/act';
import { useAsked } from '../state/api';
import { session } from '../state/live';
import { query, withQuery } from '../state/route';
import type { JobsPage, ListedJob } from '../state/wire';
import { Filter } from './jobs-filter';

const PARTS = ['status', 'type', 'key', 'error', 'older', 'newer'];
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
