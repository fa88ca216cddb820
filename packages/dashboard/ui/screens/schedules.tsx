/** Schedules: when each fires next, and whether it is on. */
import { Empty, Failed, Link, Status, Table, Title, Waiting, When } from '../parts/bits';
import { count, span } from '../parts/format';
import { doing } from '../state/act';
import { post, useAsked } from '../state/api';
import { serverNow, session, snapshot } from '../state/live';
import { go, query, withQuery } from '../state/route';
import type { ListedSchedule, SchedulesAnswer } from '../state/wire';

type ScheduleVerb = 'pause' | 'resume' | 'run';
const DONE: Readonly<Record<ScheduleVerb, string>> = {
  pause: 'is paused: it makes no jobs',
  resume: 'is on again, from its next instant',
  run: 'made a job',
};

function act(name: string, verb: ScheduleVerb): void {
  void doing(async () => {
    const { changed } = await post<{ changed: boolean }>('api/schedules/act', { name, verb });
    if (changed) return `${name} ${DONE[verb]}.`;
    return verb === 'run'
      ? `${name} skips overlaps, and its last job is not over.`
      : `${name} was so already.`;
  });
}

const timing = ({ cron, everyMs, timezone }: ListedSchedule) =>
  everyMs !== null ? `every ${span(everyMs)}` : `${cron} ${timezone}`;

/** A schedule is written within a second; one that is due for longer waits for a worker. */
const LATE_MS = 5_000;

/** How late it is, or else how late its last job was written. */
function Lag({ schedule }: { schedule: ListedSchedule }) {
  const { paused, nextAt, lastAt, lastInstant, delayMs } = schedule;
  const overdueMs = paused || nextAt === null ? 0 : serverNow() - Date.parse(nextAt);
  if (overdueMs > LATE_MS) return <span class="bad">{`overdue by ${span(overdueMs)}`}</span>;
  if (lastAt === null || lastInstant === null) return <span class="dim">–</span>;
  return <>{span(Math.max(0, Date.parse(lastAt) - Date.parse(lastInstant) - delayMs))}</>;
}

function Row({ schedule, write }: { schedule: ListedSchedule; write: boolean }) {
  const { name, paused, nextRuns, lastJob } = schedule;
  return (
    <tr>
      <th scope="row" class="name">
        {name}
      </th>
      <td>
        <Status of={paused ? 'paused' : 'on'} />
      </td>
      <td>
        <code>{timing(schedule)}</code>
      </td>
      <td>
        <Link
          to={`jobs?queue=${encodeURIComponent(schedule.queue)}&type=${encodeURIComponent(schedule.type)}`}
        >
          {`${schedule.type} in ${schedule.queue}`}
        </Link>
      </td>
      <td>
        {nextRuns.length === 0 ? (
          <span class="dim">{paused ? 'paused' : 'never again'}</span>
        ) : (
          nextRuns.map((at) => (
            <div key={at}>
              <When at={at} />
            </div>
          ))
        )}
      </td>
      <td>
        {lastJob ? (
          <Link to={`jobs/${lastJob}`} label={`Last job of ${name}`}>
            <When at={schedule.lastAt} none="by hand" />
          </Link>
        ) : (
          <span class="dim">never</span>
        )}
      </td>
      <td>
        <Lag schedule={schedule} />
      </td>
      <td class="number">{count(schedule.ticks)}</td>
      <td class="number">{count(schedule.skipped)}</td>
      <td class="number">{count(schedule.missed)}</td>
      {write && (
        <td class="row">
          <button type="button" onClick={() => act(name, 'run')}>
            Run now
          </button>
          <button type="button" onClick={() => act(name, paused ? 'resume' : 'pause')}>
            {paused ? 'Resume' : 'Pause'}
          </button>
        </td>
      )}
    </tr>
  );
}

/** The names of many tenants' schedules begin alike, so the search is by how they begin, as on the command line. */
function Filter() {
  const asked = query.value;
  function submit(event: Event): void {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const text = (name: string) => String(form.get(name) ?? '').trim();
    go(withQuery({ prefix: text('prefix'), queue: text('queue'), after: null }));
  }
  return (
    <search>
      <form class="filter" onSubmit={submit} key={asked.toString()}>
        <label>
          Name begins with
          <input name="prefix" data-search="" defaultValue={asked.get('prefix') ?? ''} />
        </label>
        <label>
          Queue
          <select name="queue" onChange={(event) => event.currentTarget.form?.requestSubmit()}>
            <option value="">all queues</option>
            {(snapshot.value?.queues ?? []).map(({ queue }) => (
              <option selected={asked.get('queue') === queue}>{queue}</option>
            ))}
          </select>
        </label>
        <button type="submit">Search</button>
      </form>
    </search>
  );
}

export function Schedules() {
  const { data, error } = useAsked<SchedulesAnswer>(`api/schedules?${query.value}`, 3);
  const write = session.value?.write === true;
  const head = [
    'Name',
    'State',
    'When',
    'Makes',
    'Next',
    'Last',
    'Lag',
    'Ticks',
    'Skipped',
    'Missed',
  ];
  return (
    <>
      <Title>Schedules</Title>
      <Filter />
      <Failed error={error} />
      {!data ? (
        error === null && <Waiting />
      ) : data.schedules.length === 0 ? (
        <Empty>
          {query.value.get('prefix') || query.value.get('queue')
            ? 'No schedule matches.'
            : 'There is no schedule. hf.schedule() and hf.schedules.declare() make them.'}
        </Empty>
      ) : (
        <Table label="Schedules" head={write ? [...head, 'Acts'] : head} numbers={[7, 8, 9]}>
          {data.schedules.map((schedule) => (
            <Row key={schedule.name} schedule={schedule} write={write} />
          ))}
        </Table>
      )}
      <nav class="row pages" aria-label="Pages">
        {query.value.has('after') && <Link to={withQuery({ after: null })}>First page</Link>}
        {data?.next && <Link to={withQuery({ after: data.next })}>Next page</Link>}
      </nav>
    </>
  );
}
