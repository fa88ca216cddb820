/** One job: why it does or does not run, in words; what happened to it, attempt by attempt; and what it holds. */
import { useState } from 'preact/hooks';
import { Fact, Failed, Link, Status, Waiting, When } from '../parts/bits';
import { Dialog } from '../parts/dialog';
import { pretty } from '../parts/format';
import { actOn, doing, type Verb } from '../state/act';
import { post, useAsked } from '../state/api';
import { serverNow, session } from '../state/live';
import type { JobAnswer, ShownJob } from '../state/wire';

interface Moment {
  readonly at: string;
  readonly what: string;
  readonly detail: string | null;
  readonly error: string | null;
  readonly kind: string;
}

const by = (worker: string | null | undefined) => (worker ? `on ${worker}` : null);

function momentsOf(job: ShownJob): Moment[] {
  const moments: Moment[] = [
    { at: job.createdAt, what: 'enqueued', detail: null, error: null, kind: 'made' },
    ...job.history.map((entry) => ({
      at: entry.at,
      what: `attempt ${entry.attempt}: ${entry.outcome.replace('_', ' ')}${entry.times && entry.times > 1 ? ` ${entry.times} times` : ''}`,
      detail: by(entry.worker),
      error: entry.error ?? null,
      kind: 'failed',
    })),
  ];
  if (job.status === 'processing' && job.claimedAt)
    moments.push({
      at: job.claimedAt,
      what: `attempt ${job.attempts}: running`,
      detail: `${by(job.claimedBy) ?? ''}, generation ${job.leaseGeneration}`,
      error: null,
      kind: 'running',
    });
  if (job.completedAt)
    moments.push({
      at: job.completedAt,
      what: job.status.replace('_', ' '),
      detail: by(job.claimedBy),
      error: null,
      kind: job.status,
    });
  return moments;
}

const Timeline = ({ job }: { job: ShownJob }) => (
  <ol class="timeline">
    {momentsOf(job).map(({ at, what, detail, error, kind }) => (
      <li key={at + what} class={`is-${kind}`}>
        <div class="row">
          <b>{what}</b>
          <span class="dim grow">{detail}</span>
          <When at={at} />
        </div>
        {error && (
          <details>
            <summary>{error.split('\n', 1)[0]}</summary>
            <pre>{error}</pre>
          </details>
        )}
      </li>
    ))}
  </ol>
);

function Facts({ job }: { job: ShownJob }) {
  return (
    <dl class="facts">
      <Fact name="Queue">
        <Link to={`jobs?queue=${encodeURIComponent(job.queue)}`}>{job.queue}</Link>
        {job.archived && ' (archive)'}
      </Fact>
      <Fact name="Key">
        <Link
          to={`jobs?queue=${encodeURIComponent(job.queue)}&key=${encodeURIComponent(job.partitionKey)}`}
        >
          {job.partitionKey}
        </Link>{' '}
        <span class="dim">bucket {job.partitionBucket}</span>
      </Fact>
      <Fact name="Type">
        {job.version === 1 ? job.type : `${job.type}, version ${job.version}`}
      </Fact>
      <Fact name="Priority">{job.priority}</Fact>
      <Fact name="Attempts">{`${job.attempts} of ${job.maxAttempts}`}</Fact>
      <Fact name="Generation">{job.leaseGeneration}</Fact>
      {job.crashes > 0 && <Fact name="Crashes">{job.crashes}</Fact>}
      {job.claimedBy && <Fact name="Worker">{job.claimedBy}</Fact>}
      {job.claimedAt && (
        <Fact name="Claimed">
          <When at={job.claimedAt} />
        </Fact>
      )}
      {job.leaseExpiresAt && (
        <Fact name="Lease ends">
          <When at={job.leaseExpiresAt} />
        </Fact>
      )}
      {job.runAt && (
        <Fact name="Due">
          <When at={job.runAt} />
        </Fact>
      )}
      {job.idempotencyKey && <Fact name="Idempotency key">{job.idempotencyKey}</Fact>}
      <Fact name="Id">
        <code>{job.id}</code>
      </Fact>
    </dl>
  );
}

const Value = ({ name, value }: { name: string; value: unknown }) => (
  <section>
    <h2>{name}</h2>
    {/* biome-ignore lint/a11y/noNoninteractiveTabindex: who has no mouse scrolls it with the arrow keys. */}
    <pre tabIndex={0}>{pretty(value)}</pre>
  </section>
);

const NAMES: Readonly<Record<Verb, string>> = {
  retry: 'Retry',
  discard: 'Discard',
  cancel: 'Cancel',
};

function Acts({ job }: { job: ShownJob }) {
  const [asked, setAsked] = useState<Verb | null>(null);
  const { id, queue, status, archived } = job;
  const run = () =>
    void doing(async () => {
      await post(`api/jobs/${id}/run`, { queue });
      return 'It is due now.';
    });
  const replay = () =>
    void doing(async () => {
      const { moved, keyTaken } = await post<{ moved: number; keyTaken: number }>(
        'api/jobs/replay',
        { queue, ids: [id] },
      );
      if (moved === 1) return 'It waits in its queue again.';
      return keyTaken === 1
        ? 'It could not be put back: its idempotency key stands for another job.'
        : 'It is not in the archive any more; somebody may have put it back already.';
    });
  const act = (verb: Verb) => {
    setAsked(null);
    void actOn(verb, queue, [id]);
  };
  const waits = status === 'pending' && job.runAt !== null && Date.parse(job.runAt) > serverNow();
  return (
    <div class="row acts" role="toolbar" aria-label="Acts">
      {status === 'dead_letter' && !archived && (
        <button type="button" class="primary" onClick={() => act('retry')}>
          Retry
        </button>
      )}
      {waits && (
        <button type="button" class="primary" onClick={run}>
          Run now
        </button>
      )}
      {status === 'dead_letter' && !archived && (
        <button type="button" onClick={() => act('discard')}>
          Discard
        </button>
      )}
      {(status === 'pending' || status === 'processing') && (
        <button
          type="button"
          onClick={() => (status === 'processing' ? setAsked('cancel') : act('cancel'))}
        >
          Cancel
        </button>
      )}
      {(status === 'cancelled' || status === 'discarded') && (
        <button type="button" onClick={replay}>
          Put back
        </button>
      )}
      {asked && (
        <Dialog title={`${NAMES[asked]} a job that runs?`} onClose={() => setAsked(null)}>
          <p>Its worker finds its lease lost. What the handler has done until then stays done.</p>
          <div class="row end">
            <button type="button" onClick={() => setAsked(null)}>
              Keep it
            </button>
            <button type="button" class="danger" onClick={() => act(asked)}>
              {NAMES[asked]}
            </button>
          </div>
        </Dialog>
      )}
    </div>
  );
}

function Why({ explanation }: { explanation: JobAnswer['explanation'] }) {
  return (
    <section class="why" aria-label="Why">
      <p>{explanation.text}</p>
      {explanation.fix && <p class="fix">{explanation.fix}</p>}
      {explanation.also.map(({ text, fix }) => (
        <p class="dim" key={text}>
          Also: {text} {fix}
        </p>
      ))}
    </section>
  );
}

export function JobScreen({ id }: { id: string }) {
  const { data, error } = useAsked<JobAnswer>(`api/jobs/${encodeURIComponent(id)}`, 1);
  if (!data)
    return error ? (
      <>
        <Failed error={error} />
        <p>
          <Link to={`jobs?key=${encodeURIComponent(id)}`}>Jobs with this as their key</Link>
        </p>
      </>
    ) : (
      <Waiting />
    );
  const { job, explanation } = data;
  return (
    <>
      <div class="title">
        <h1>{job.type}</h1>
        <Status of={job.status} />
      </div>
      <Failed error={error} />
      {session.value?.write && <Acts job={job} />}
      <Why explanation={explanation} />
      <div class="columns">
        <section>
          <h2>What happened</h2>
          <Timeline job={job} />
        </section>
        <section>
          <h2>Facts</h2>
          <Facts job={job} />
        </section>
      </div>
      <div class="columns">
        <Value name="Payload" value={job.payload} />
        {job.status === 'completed' ? (
          <Value name="Result" value={job.result} />
        ) : (
          Object.keys(job.headers ?? {}).length > 0 && <Value name="Headers" value={job.headers} />
        )}
      </div>
    </>
  );
}
