/** Schedules: when each fires next, and whether it is on. */
import { Button, Field, Select, Table } from '@holdfast/lab';
import { Link, Pages, Search, Shown, Status, Title, When } from '../parts/bits';
import { count, span } from '../parts/format';
import { send } from '../state/act';
import { useAsked } from '../state/api';
import { serverNow, snapshot, write } from '../state/live';
import { go, jobsAt, query, withQuery } from '../state/route';
import type { ListedSchedule, SchedulesAnswer } from '../state/wire';

type ScheduleVerb = 'pause' | 'resume' | 'run';
const DONE: Readonly<Record<ScheduleVerb, string>> = {
  pause: 'is paused: it makes no jobs',
  resume: 'is on again, from its next instant',
  run: 'made a job',
};

const act = (name: string, verb: ScheduleVerb) =>
  void send<{ changed: boolean }>('api/schedules/act', { name, verb }, ({ changed }) => {
    if (changed) return `${name} ${DONE[verb]}.`;
    return verb === 'run'
      ? `${name} skips overlaps, and its last job is not over.`
      : `${name} was so already.`;
  });

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

function Row({ schedule }: { schedule: ListedSchedule }) {
  const { name, paused, queue, type, nextRuns, lastJob } = schedule;
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
        <Link to={jobsAt({ queue, type })}>{`${type} in ${queue}`}</Link>
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
      {write.value && (
        <td class="row">
          <Button onClick={() => act(name, 'run')}>Run now</Button>
          <Button onClick={() => act(name, paused ? 'resume' : 'pause')}>
            {paused ? 'Resume' : 'Pause'}
          </Button>
        </td>
      )}
    </tr>
  );
}

const HEAD = [
  ...['Name', 'State', 'When', 'Makes', 'Next', 'Last', 'Lag'],
  ...['Ticks', 'Skipped', 'Missed'],
];

export function Schedules() {
  const asked = useAsked<SchedulesAnswer>(`api/schedules?${query.value}`, 3);
  const [prefix, queue] = ['prefix', 'queue'].map((name) => query.value.get(name) ?? '');
  const queues = (snapshot.value?.queues ?? []).map((one) => one.queue);
  return (
    <>
      <Title>Schedules</Title>
      <Search
        onSearch={(text) =>
          go(withQuery({ prefix: text('prefix'), queue: text('queue'), after: null }))
        }
      >
        {/* The names of many tenants' schedules begin alike, so the search is by how they begin, as on the command line. */}
        <Field label="Name begins with" name="prefix" data-search="" defaultValue={prefix} />
        <Select
          label="Queue"
          name="queue"
          value={queue}
          options={[['', 'all queues'], ...queues]}
        />
      </Search>
      <Shown of={asked}>
        {({ schedules }) => (
          <Table
            label="Schedules"
            head={write.value ? [...HEAD, 'Acts'] : HEAD}
            numbers={[7, 8, 9]}
            empty={
              prefix || queue
                ? 'No schedule matches.'
                : 'There is no schedule. hf.schedule() and hf.schedules.declare() make them.'
            }
          >
            {schedules.map((schedule) => (
              <Row key={schedule.name} schedule={schedule} />
            ))}
          </Table>
        )}
      </Shown>
      <Pages next={asked.data?.next} />
    </>
  );
}
