/** Is all well? What is wrong now, in words, and how the last minutes went. */
import { Select, Table } from '@holdfast/lab';
import type { Figures } from '../../src/read/snapshot.js';
import { Link, QueueState, Status, Title, Waiting } from '../parts/bits';
import { Chart, Spark } from '../parts/chart';
import { count, rate, span } from '../parts/format';
import { samples, snapshot } from '../state/live';
import { go, jobsAt, query, withQuery } from '../state/route';
import type { LiveQueue, LiveSnapshot, LockedQueue } from '../state/wire';

/** Places in the figures of a sample. */
const [IN, OUT, PENDING, PROCESSING, DEAD, LAG, LATENCY, FAILED] = [
  0, 1, 2, 3, 4, 5, 6, 7,
] as const;

function series(place: number, queue: string | null, how: 'sum' | 'max' = 'sum'): number[] {
  return samples.value.map(({ queues }) => {
    const all = queue === null ? Object.values(queues) : queues[queue] ? [queues[queue]] : [];
    const values = all.map((figures: Figures) => figures[place] as number);
    return how === 'max' ? Math.max(0, ...values) : values.reduce((sum, value) => sum + value, 0);
  });
}

const last = (values: readonly number[]) => values.at(-1) ?? 0;
/** A rate needs two readings. */
const latest = (name: string, place: number) => {
  const value = samples.value.at(-1)?.queues[name]?.[place];
  return value === undefined ? '–' : rate(value);
};

function Problems({ problems }: { problems: LiveSnapshot['problems'] }) {
  if (problems.length === 0) return <p class="well">All is well.</p>;
  return (
    <ul class="problems" aria-label="What is wrong now">
      {problems.map(({ level, text, link }) => (
        <li key={text} class={`is-${level}`}>
          <Link to={link}>{text}</Link>
        </li>
      ))}
    </ul>
  );
}

/** A figure is of all queues, a list of one: of that which has the most of it. */
function jobsOf(seen: LiveSnapshot, status: string, of: (queue: LiveQueue) => number): string {
  const [most] = [...seen.queues].sort((a, b) => of(b) - of(a));
  return jobsAt({ queue: most?.queue ?? 'inbox', status });
}

function Tiles({ seen }: { seen: LiveSnapshot }) {
  const sum = (of: (queue: LiveQueue) => number) =>
    seen.queues.reduce((total, queue) => total + of(queue), 0);
  const least = seen.unreadable.length > 0 ? '≥ ' : '';
  const rough = seen.queues.some(({ approximate }) => approximate) ? '~' : least;
  const roughDead = seen.queues.some((queue) => queue.deadLetterApproximate) ? '~' : least;
  const retrying = seen.queues.some((queue) => queue.retrying === null)
    ? null
    : sum((queue) => queue.retrying ?? 0);
  const lag = Math.max(0, ...seen.queues.map(({ oldestDueMs }) => oldestDueMs ?? 0));
  const dead = sum((queue) => queue.deadLetter);
  const { alive, running: load, handlers } = seen.fleet;
  const latencies = seen.queues.flatMap(({ startLatencyMs }) => startLatencyMs ?? []);
  const latency = latencies.length === 0 ? '–' : span(Math.max(...latencies));
  const failing = last(series(FAILED, null));
  const pending = ({ pending: jobs }: LiveQueue) => jobs;
  const running = ({ processing }: LiveQueue) => processing;
  const again = (queue: LiveQueue) => queue.retrying ?? 0;
  const waiting = jobsOf(seen, 'pending', pending);
  const retried = jobsOf(seen, 'pending', again);
  const started = jobsOf(seen, 'processing', (queue) => queue.startLatencyMs ?? 0);
  const due = jobsOf(seen, 'pending', (queue) => queue.oldestDueMs ?? 0);
  const tiles: [string, string, string, boolean][] = [
    ['Waiting', rough + count(sum(pending)), waiting, false],
    ['Processing', least + count(sum(running)), jobsOf(seen, 'processing', running), false],
    ['Retrying', retrying === null ? '–' : least + count(retrying), retried, false],
    ['Dead letters', roughDead + count(dead), 'dead-letters', dead > 0],
    ['Failures/s', samples.value.length === 0 ? '–' : rate(failing), retried, failing >= 1],
    ['Due to start', latency, started, false],
    ['Oldest due', lag === 0 ? '–' : span(lag), `${due}&order=oldest`, lag > 60_000],
    ['Workers', count(alive), 'workers', alive === 0],
    ['Handlers busy', handlers === 0 ? '–' : `${load} of ${handlers}`, 'workers', false],
  ];
  return (
    <ul class="tiles">
      {tiles.map(([name, value, to, worry]) => (
        <li key={name} class={worry ? 'worry' : undefined}>
          <Link to={to}>
            <span>{name}</span>
            <b>{value}</b>
          </Link>
        </li>
      ))}
    </ul>
  );
}

function QueueRow({ queue }: { queue: LiveQueue }) {
  const name = queue.queue;
  return (
    <tr>
      <th scope="row">
        <Link to={jobsAt({ queue: name })}>{name}</Link>
      </th>
      <td>
        <QueueState queue={queue} />
      </td>
      <td>
        <Spark values={series(OUT, name)} label={`Throughput of ${name}`} />
      </td>
      <td class="number">{latest(name, IN)}</td>
      <td class="number">{latest(name, OUT)}</td>
      <td class="number">{latest(name, FAILED)}</td>
      <td class="number">{(queue.approximate ? '~' : '') + count(queue.pending)}</td>
      <td class="number">{queue.retrying === null ? '–' : count(queue.retrying)}</td>
      <td class="number">{count(queue.processing)}</td>
      <td class="number">
        {queue.deadLetter > 0 ? (
          <Link to={`dead-letters?queue=${encodeURIComponent(name)}`} class="bad">
            {(queue.deadLetterApproximate ? '~' : '') + count(queue.deadLetter)}
          </Link>
        ) : (
          0
        )}
      </td>
      <td class="number">{queue.startLatencyMs === null ? '–' : span(queue.startLatencyMs)}</td>
      <td class="number">{queue.oldestDueMs === null ? '–' : span(queue.oldestDueMs)}</td>
    </tr>
  );
}

const UnreadRow = ({ queue }: { queue: LockedQueue }) => (
  <tr>
    <th scope="row">{queue.queue}</th>
    <td>
      <Status of="unreadable" />
    </td>
    <td class="error" colSpan={10}>
      {queue.unreadable}
    </td>
  </tr>
);

/** The lines of each chart: a name, its place in the figures, and its colour. */
const CHARTS: readonly [
  title: string,
  show: (value: number) => string,
  how: 'sum' | 'max',
  ...lines: [name: string, place: number, colour: number][],
][] = [
  ['Jobs a second', rate, 'sum', ['done', OUT, 1], ['in', IN, 2]],
  ['Jobs', count, 'sum', ['waiting', PENDING, 1], ['processing', PROCESSING, 2]],
  ['Lag', span, 'max', ['oldest due', LAG, 3]],
  ['Due to start', span, 'max', ['mean', LATENCY, 2]],
  ['Failures a second', rate, 'sum', ['attempts', FAILED, 4]],
  ['Failed for good', count, 'sum', ['dead letters', DEAD, 4]],
];
const HEAD = [
  ...['Queue', 'State', 'Done', 'In/s', 'Done/s', 'Failed/s', 'Waiting', 'Retrying', 'Processing'],
  ...['Dead', 'To start', 'Oldest due'],
];

export function Overview() {
  const seen = snapshot.value;
  if (!seen) return <Waiting />;
  const asked = query.value.get('queue');
  const queue = seen.queues.some((one) => one.queue === asked) ? asked : null;
  const times = samples.value.map(({ at }) => at);
  return (
    <>
      <Title
        aside={
          <Select
            label="Charts of"
            value={queue ?? ''}
            options={[['', 'all queues'], ...seen.queues.map((one) => one.queue)]}
            onChange={(to) => go(withQuery({ queue: to }), 'replace')}
          />
        }
      >
        Overview
      </Title>
      <Problems problems={seen.problems} />
      <Tiles seen={seen} />
      <div class="charts">
        {CHARTS.map(([title, show, how, ...lines]) => (
          <Chart
            key={title}
            {...{ title, times, show }}
            lines={lines.map(([name, place, colour]) => ({
              ...{ name, colour, values: series(place, queue, how) },
            }))}
          />
        ))}
      </div>
      <Table
        label="Queues"
        head={HEAD}
        numbers={[3, 4, 5, 6, 7, 8, 9, 10, 11]}
        empty="There is no queue that this user may read."
      >
        {seen.queues.map((one) => (
          <QueueRow key={one.queue} queue={one} />
        ))}
        {seen.unreadable.map((one) => (
          <UnreadRow key={one.queue} queue={one} />
        ))}
      </Table>
    </>
  );
}
