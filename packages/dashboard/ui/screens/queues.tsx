/** Queues: how they are set, how they do, and whether they are open. */
import { useState } from 'preact/hooks';
import { Empty, Fact, Failed, Link, QueueState, Status, Title, Waiting, When } from '../parts/bits';
import { Spark } from '../parts/chart';
import { Dialog } from '../parts/dialog';
import { bytes, count, rate, span } from '../parts/format';
import { doing } from '../state/act';
import { post, useAsked } from '../state/api';
import { samples, session, snapshot } from '../state/live';
import { go, query, withQuery } from '../state/route';
import type { LiveQueue, QueueSettings } from '../state/wire';

const READ_BY: Readonly<Record<string, string>> = {
  none: 'time',
  key: 'key, in order',
  key_strict: 'key, in order; dead letters hold it',
  turns: 'key, in turns',
};

function turn(queue: string, verb: 'pause' | 'resume'): void {
  void doing(async () => {
    await post(`api/queues/${encodeURIComponent(queue)}/${verb}`, {});
    return verb === 'pause' ? `${queue} is paused: nothing new starts.` : `${queue} is open again.`;
  });
}

function QueueCard(props: {
  queue: LiveQueue;
  settings: QueueSettings | undefined;
  onPause: () => void;
}) {
  const { queue, settings } = props;
  const name = queue.queue;
  const done = samples.value.map((sample) => sample.queues[name]?.[1] ?? 0);
  const last = samples.value.at(-1)?.queues[name];
  return (
    <section class="card" aria-label={`Queue ${name}`}>
      <div class="row">
        <h2>
          <Link to={`jobs?queue=${encodeURIComponent(name)}`}>{name}</Link>
        </h2>
        <QueueState queue={queue} />
        <span class="grow" />
        <Spark values={done} label={`Throughput of ${name}`} />
        {session.value?.write &&
          (queue.paused ? (
            <button type="button" class="primary" onClick={() => turn(name, 'resume')}>
              Resume
            </button>
          ) : (
            <button type="button" onClick={props.onPause}>
              Pause…
            </button>
          ))}
      </div>
      <dl class="facts wide">
        <Fact name="Waiting">{(queue.approximate ? '~' : '') + count(queue.pending)}</Fact>
        <Fact name="Not due yet">
          {queue.scheduled === null ? 'not known' : count(queue.scheduled)}
        </Fact>
        <Fact name="Retrying">{queue.retrying === null ? 'not known' : count(queue.retrying)}</Fact>
        <Fact name="Processing">{count(queue.processing)}</Fact>
        <Fact name="Dead letters">
          {(queue.deadLetterApproximate ? '~' : '') + count(queue.deadLetter)}
        </Fact>
        <Fact name="Oldest due">
          {queue.oldestDueMs === null ? 'none' : span(queue.oldestDueMs)}
        </Fact>
        <Fact name="In / done a second">{`${rate(last?.[0] ?? 0)} / ${rate(last?.[1] ?? 0)}`}</Fact>
        <Fact name="Due to start">
          {queue.startLatencyMs === null ? 'nothing runs' : span(queue.startLatencyMs)}
        </Fact>
        <Fact name="Read by">{READ_BY[queue.ordering] ?? queue.ordering}</Fact>
        {queue.ordering === 'turns' && (
          <>
            <Fact name="At once of a key">
              {queue.perKey === null ? 'any' : count(queue.perKey)}
            </Fact>
            <Fact name="At once of a group">
              {queue.perGroup === null ? 'any' : count(queue.perGroup)}
            </Fact>
            <Fact name="Keys take turns">{queue.fair ? 'yes' : 'no'}</Fact>
          </>
        )}
        {queue.maxPending !== null && (
          <Fact name="May wait, at most">{count(queue.maxPending)}</Fact>
        )}
        <Fact name="Table and indexes">{bytes(queue.tableBytes)}</Fact>
        <Fact name="Archive">{bytes(queue.archiveBytes)}</Fact>
        <Fact name="Archive kept for">{span(queue.archiveRetentionMs)}</Fact>
        {settings && (
          <>
            <Fact name="Idempotency keys">{span(settings.idempotencyRetentionMs)}</Fact>
            <Fact name="Effects kept for">{span(settings.effectRetentionMs)}</Fact>
            <Fact name="Audit kept for">{span(settings.auditRetentionMs)}</Fact>
            <Fact name="Largest payload">{bytes(settings.maxPayloadBytes)}</Fact>
          </>
        )}
        <Fact name="Maintained">
          <When at={queue.maintainedAt} none="not yet" />
        </Fact>
      </dl>
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
            <label>
              Name holds{' '}
              <input
                data-search=""
                value={wanted}
                onInput={(event) => go(withQuery({ name: event.currentTarget.value }), 'replace')}
              />
            </label>
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
        <Dialog title={`Pause ${asked}?`} onClose={() => setAsked(null)}>
          <p>
            No worker takes a job of it until it is resumed. Jobs that run go on, and new ones are
            accepted.
          </p>
          <div class="row end">
            <button type="button" onClick={() => setAsked(null)}>
              Leave it open
            </button>
            <button
              type="button"
              class="danger"
              onClick={() => {
                turn(asked, 'pause');
                setAsked(null);
              }}
            >
              Pause
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}
