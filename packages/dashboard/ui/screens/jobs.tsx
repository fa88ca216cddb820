/** Jobs of a queue or of its archive. The filter is the address, so a search can be sent to somebody. */
import { Button, Table } from '@holdfast/lab';
import { useEffect, useState } from 'preact/hooks';
import { Link, Pages, Shown, Status, Title, When } from '../parts/bits';
import { Bulk } from '../parts/bulk';
import { firstLine, stateText } from '../parts/format';
import { Filter } from '../parts/jobs-filter';
import { actOn, NAMES, type Verb } from '../state/act';
import { useAsked } from '../state/api';
import { write } from '../state/live';
import { query } from '../state/route';
import type { JobsPage, ListedJob } from '../state/wire';

const PARTS = ['status', 'type', 'key', 'error', 'older', 'newer'];
/** Which verb does anything to a job in this state. */
const VERBS: Readonly<Record<string, readonly Verb[]>> = {
  pending: ['cancel'],
  processing: ['cancel'],
  dead_letter: ['retry', 'discard'],
};
/** When it is due, until when it is leased, or when it ended. */
function Time({ job }: { job: ListedJob }) {
  const { completedAt, status, leaseExpiresAt, runAt } = job;
  if (completedAt) return <When at={completedAt} />;
  const [what, at] =
    status === 'processing'
      ? ['lease ends', leaseExpiresAt]
      : status === 'pending'
        ? ['due', runAt]
        : [];
  if (!what || (what === 'due' && !at)) return <span class="dim">–</span>;
  return (
    <>
      {what} <When at={at ?? null} />
    </>
  );
}

const Box = (props: { label: string; checked: boolean; onPick: (on: boolean) => void }) => (
  <input
    type="checkbox"
    checked={props.checked}
    aria-label={props.label}
    onChange={(event) => props.onPick(event.currentTarget.checked)}
  />
);

function Row(props: { job: ListedJob; picked: boolean; onPick: ((on: boolean) => void) | false }) {
  const { job, picked, onPick } = props;
  return (
    <tr>
      {onPick && (
        <td>
          <Box label={`Select ${job.id}`} checked={picked} onPick={onPick} />
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

const HEAD = ['Status', 'Type', 'Key', 'Attempts', 'Made', 'Time', 'Worker', 'Error'];

export function Jobs() {
  const address = query.value;
  const queue = address.get('queue') ?? 'inbox';
  // A search that has found nothing reads for a second: it goes on when somebody asks for more.
  const asked = useAsked<JobsPage>(`api/jobs?${address}`, (page) =>
    address.has('after') || (page?.next && page.jobs.length === 0) ? 0 : 2,
  );
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set());
  const [bulk, setBulk] = useState<Verb | null>(null);
  // With another filter the question would be about other jobs than were counted.
  useEffect(() => {
    setPicked(new Set());
    setBulk(null);
  }, [address.toString()]);
  const filter = Object.fromEntries(
    [...address].filter(([name, value]) => PARTS.includes(name) && value),
  );
  const verbs = VERBS[address.get('status') ?? ''] ?? [];
  const { jobs: shown, next } = asked.data ?? { jobs: [], next: null };
  const chosen = shown.filter(({ id }) => picked.has(id));
  const possible = [...new Set(chosen.flatMap((job) => VERBS[job.status] ?? []))];
  const pick = (ids: readonly string[], on: boolean) =>
    setPicked((old) => new Set(on ? [...old, ...ids] : [...old].filter((id) => !ids.includes(id))));
  const actPicked = async (verb: Verb) => {
    const ids = chosen.filter((job) => VERBS[job.status]?.includes(verb)).map(({ id }) => id);
    if (await actOn(verb, queue, ids)) setPicked(new Set());
  };
  const all = shown.length > 0 && chosen.length === shown.length;
  const ids = shown.map(({ id }) => id);
  const box = <Box label="Select all on this page" checked={all} onPick={(on) => pick(ids, on)} />;
  return (
    <>
      <Title>Jobs</Title>
      <Filter />
      {write.value && (
        <div class="row acts" role="toolbar" aria-label="Acts">
          {chosen.length > 0 ? (
            <>
              <span>{chosen.length} selected</span>
              {possible.map((verb) => (
                <Button onClick={() => void actPicked(verb)}>{NAMES[verb]}</Button>
              ))}
            </>
          ) : verbs.length > 0 ? (
            <>
              <span class="dim">All that match:</span>
              {verbs.map((verb) => (
                <Button disabled={shown.length === 0 && !next} onClick={() => setBulk(verb)}>
                  {`${NAMES[verb]} all…`}
                </Button>
              ))}
            </>
          ) : (
            <span class="dim">Select jobs, or choose a status to act on all that match.</span>
          )}
        </div>
      )}
      <Shown of={asked}>
        {() => (
          <Table
            label="Jobs"
            head={write.value ? [box, ...HEAD] : HEAD}
            numbers={[write.value ? 4 : 3]}
            empty={
              next === null
                ? 'No job matches.'
                : 'Nothing found so far. The search is not at its end.'
            }
          >
            {shown.map((job) => (
              <Row
                key={job.id}
                job={job}
                picked={picked.has(job.id)}
                onPick={write.value && ((on) => pick([job.id], on))}
              />
            ))}
          </Table>
        )}
      </Shown>
      <Pages next={next} more={shown.length === 0 ? 'Search on' : 'Next page'} />
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
