/** Queues: how they are set, how they do, and whether they are open. */
import { Button, Empty, Facts, Field } from '@holdfast/lab';
import { useState } from 'preact/hooks';
import type { Figures } from '../../src/read/snapshot.js';
import { Confirm, Failed, Link, QueueState, Status, Title, Waiting, When } from '../parts/bits';
import { Spark } from '../parts/chart';
import { bytes, count, rate, span } from '../parts/format';
import { send } from '../state/act';
import { useAsked } from '../state/api';
import { samples, snapshot, write } from '../state/live';
import { go, jobsAt, query, withQuery } from '../state/route';
import type { LiveQueue, QueueSettings } from '../state/wire';

const READ_BY: Readonly<Record<string, string>> = {
  none: 'time',
  key: 'key, in order',
  key_strict: 'key, in order; dead letters hold it',
  turns: 'key, in turns',
};

function turn(queue: string, verb: 'pause' | 'resume'): void {
  const said = verb === 'pause' ? 'is paused: nothing new starts' : 'is open again';
  void send(`api/queues/${encodeURIComponent(queue)}/${verb}`, {}, `${queue} ${said}.`);
}

const counted = (value: number | null, none: string) => (value === null ? none : count(value));
const spanned = (ms: number | null, none: string) => (ms === null ? none : span(ms));

const factsOf = (queue: LiveQueue, settings: QueueSettings | undefined, last?: Figures) => ({
  Waiting: (queue.approximate ? '~' : '') + count(queue.pending),
  'On hold, by a pause': (queue.approximate ? '≥ ' : '') + count(queue.onHold),
  'Not due yet': counted(queue.scheduled, 'not known'),
  Retrying: counted(queue.retrying, 'not known'),
  Processing: count(queue.processing),
  'Dead letters': (queue.deadLetterApproximate ? '~' : '') + count(queue.deadLetter),
  'Oldest due': spanned(queue.oldestDueMs, 'none'),
  'In / done a second': `${rate(last?.[0] ?? 0)} / ${rate(last?.[1] ?? 0)}`,
  'Due to start': spanned(queue.startLatencyMs, 'nothing runs'),
  'Read by': READ_BY[queue.ordering] ?? queue.ordering,
  ...(queue.ordering === 'turns' && {
    'At once of a key': counted(queue.perKey, 'any'),
    'At once of a group': counted(queue.perGroup, 'any'),
    'Keys take turns': queue.fair ? 'yes' : 'no',
  }),
  'May wait, at most': queue.maxPending !== null && count(queue.maxPending),
  'Table and indexes': bytes(queue.tableBytes),
  Archive: bytes(queue.archiveBytes),
  'Archive kept for': span(queue.archiveRetentionMs),
  ...(settings && {
    'Idempotency keys': span(settings.idempotencyRetentionMs),
    'Effects kept for': span(settings.effectRetentionMs),
    'Audit kept for': span(settings.auditRetentionMs),
    'Largest payload': bytes(settings.maxPayloadBytes),
  }),
  Maintained: <When at={queue.maintainedAt} none="not yet" />,
});

function QueueCard(props: {
  queue: LiveQueue;
  settings: QueueSettings | undefined;
  onPause: () => void;
}) {
  const { queue, settings } = props;
  const name = queue.queue;
  const figures = samples.value.map(({ queues }) => queues[name]);
  return (
    <section class="card" aria-label={`Queue ${name}`}>
      <div class="row">
        <h2>
          <Link to={jobsAt({ queue: name })}>{name}</Link>
        </h2>
        <QueueState queue={queue} />
        <span class="grow" />
        <Spark values={figures.map((one) => one?.[1] ?? 0)} label={`Throughput of ${name}`} />
        {write.value &&
          (queue.paused ? (
            <Button class="primary" onClick={() => turn(name, 'resume')}>
              Resume
            </Button>
          ) : (
            <Button onClick={props.onPause}>Pause…</Button>
          ))}
      </div>
      <Facts wide of={factsOf(queue, settings, figures.at(-1))} />
    </section>
  );
}

/** So many are found by eye. */
const FEW = 10;

export function Queues() {
  const [asked, setAsked] = useState<string | null>(null);
  const wanted = query.value.get('name') ?? '';
  const { data, error } = useAsked<{ queues: readonly QueueSettings[] }>('api/queues', 10);
  const seen = snapshot.value;
  if (!seen) return error ? <Failed error={error} /> : <Waiting />;
  const shown = seen.queues.filter(({ queue }) => queue.includes(wanted));
  return (
    <>
      <Title
        aside={
          seen.queues.length > FEW && (
            <Field
              class="inline"
              label="Name holds"
              data-search=""
              value={wanted}
              onInput={(event) => go(withQuery({ name: event.currentTarget.value }), 'replace')}
            />
          )
        }
      >
        Queues
      </Title>
      <Failed error={error} />
      {shown.length === 0 && seen.queues.length > 0 && <Empty>No queue has such a name.</Empty>}
      {shown.map((queue) => (
        <QueueCard
          key={queue.queue}
          queue={queue}
          settings={data?.queues.find(({ name }) => name === queue.queue)}
          onPause={() => setAsked(queue.queue)}
        />
      ))}
      {seen.unreadable.map((queue) => (
        <section key={queue.queue} class="card" aria-label={`Queue ${queue.queue}`}>
          <div class="row">
            <h2>{queue.queue}</h2>
            <Status of="unreadable" />
          </div>
          <Failed error={queue.unreadable} />
        </section>
      ))}
      {asked && (
        <Confirm
          title={`Pause ${asked}?`}
          keep="Leave it open"
          act="Pause"
          onAct={() => turn(asked, 'pause')}
          onClose={() => setAsked(null)}
        >
          No worker takes a job of it until it is resumed. Jobs that run go on, and new ones are
          accepted.
        </Confirm>
      )}
    </>
  );
}
