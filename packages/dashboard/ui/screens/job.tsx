/** One job: why it does or does not run, in words; what happened to it, attempt by attempt; and what it holds. */
import { Button, Facts } from '@holdfast/lab';
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { Confirm, Failed, Link, Status, Waiting, When } from '../parts/bits';
import { pretty, stateText } from '../parts/format';
import { Parent } from '../parts/run-bits';
import { actOn, send, type Verb } from '../state/act';
import { useAsked } from '../state/api';
import { serverNow, write } from '../state/live';
import { jobsAt } from '../state/route';
import type { JobAnswer, ShownJob } from '../state/wire';

interface Moment {
  readonly at: string;
  readonly what: string;
  readonly detail?: string | null;
  readonly error?: string | null | undefined;
  readonly kind: string;
}

const by = (worker: string | null | undefined) => (worker ? `on ${worker}` : null);

function momentsOf(job: ShownJob): Moment[] {
  const { status, claimedAt, claimedBy, completedAt } = job;
  const attempts = job.history.map(({ at, attempt, outcome, times, worker, error }): Moment => {
    const often = times && times > 1 ? ` ${times} times` : '';
    const what = `attempt ${attempt}: ${stateText(outcome)}${often}`;
    return { at, what, detail: by(worker), error, kind: 'failed' };
  });
  const moments: Moment[] = [{ at: job.createdAt, what: 'enqueued', kind: 'made' }, ...attempts];
  if (status === 'processing' && claimedAt) {
    const detail = `${by(claimedBy) ?? ''}, generation ${job.leaseGeneration}`;
    const what = `attempt ${job.attempts}: running`;
    moments.push({ at: claimedAt, what, detail, kind: 'running' });
  }
  if (completedAt)
    moments.push({ at: completedAt, what: stateText(status), detail: by(claimedBy), kind: status });
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

function factsOf(job: ShownJob): Record<string, ComponentChildren> {
  const { queue, partitionKey: key } = job;
  return {
    Queue: (
      <>
        <Link to={jobsAt({ queue })}>{queue}</Link>
        {job.archived && ' (archive)'}
      </>
    ),
    Key: (
      <>
        <Link to={jobsAt({ queue, key })}>{key}</Link>{' '}
        <span class="dim">bucket {job.partitionBucket}</span>
      </>
    ),
    Type: job.version === 1 ? job.type : `${job.type}, version ${job.version}`,
    Priority: job.priority,
    Attempts: `${job.attempts} of ${job.maxAttempts}`,
    Generation: job.leaseGeneration,
    Crashes: job.crashes > 0 && job.crashes,
    Worker: job.claimedBy,
    Claimed: job.claimedAt && <When at={job.claimedAt} />,
    'Lease ends': job.leaseExpiresAt && <When at={job.leaseExpiresAt} />,
    Due: job.runAt && <When at={job.runAt} />,
    'Idempotency key': job.idempotencyKey,
    Id: <code>{job.id}</code>,
  };
}

export const Value = ({ name, value }: { name: string; value: unknown }) => (
  <section>
    <h2>{name}</h2>
    {/* biome-ignore lint/a11y/noNoninteractiveTabindex: who has no mouse scrolls it with the arrow keys. */}
    <pre tabIndex={0}>{pretty(value)}</pre>
  </section>
);

function Acts({ job }: { job: ShownJob }) {
  const [asked, setAsked] = useState(false);
  const { id, queue, status, archived } = job;
  const run = () => void send(`api/jobs/${id}/run`, { queue }, 'It is due now.');
  const replay = () =>
    void send<{ moved: number; keyTaken: number }>(
      'api/jobs/replay',
      { queue, ids: [id] },
      ({ moved, keyTaken }) => {
        if (moved === 1) return 'It waits in its queue again.';
        return keyTaken === 1
          ? 'It could not be put back: its idempotency key stands for another job.'
          : 'It is not in the archive any more; somebody may have put it back already.';
      },
    );
  const act = (verb: Verb) => void actOn(verb, queue, [id]);
  const dead = status === 'dead_letter' && !archived;
  const waits = status === 'pending' && job.runAt !== null && Date.parse(job.runAt) > serverNow();
  const possible: readonly [string, boolean, () => void][] = [
    ['Retry', dead, () => act('retry')],
    ['Run now', waits, run],
    ['Discard', dead, () => act('discard')],
    ['Cancel', status === 'pending', () => act('cancel')],
    ['Cancel', status === 'processing', () => setAsked(true)],
    ['Put back', status === 'cancelled' || status === 'discarded', replay],
  ];
  return (
    <div class="row acts" role="toolbar" aria-label="Acts">
      {possible.map(
        ([name, is, onClick]) =>
          is && (
            <Button
              class={/^(Retry|Run now)$/.test(name) ? 'primary' : undefined}
              onClick={onClick}
            >
              {name}
            </Button>
          ),
      )}
      {asked && (
        <Confirm
          title="Cancel a job that runs?"
          keep="Keep it"
          act="Cancel"
          onAct={() => act('cancel')}
          onClose={() => setAsked(false)}
        >
          Its worker finds its lease lost. What the handler has done until then stays done.
        </Confirm>
      )}
    </div>
  );
}

/** It is a run of a workflow, or the child of one. */
function Links({ job, isRun, parent }: Pick<JobAnswer, 'job' | 'isRun' | 'parent'>) {
  if (!isRun && !parent) return null;
  return (
    <p>
      {isRun && <Link to={`workflows/${job.id}`}>This job is a run of a workflow: its steps</Link>}
      {isRun && parent && ' · '}
      {parent && <Parent of={parent} />}
    </p>
  );
}

export function Why({ explanation }: { explanation: JobAnswer['explanation'] }) {
  return (
    <section class="why" aria-label="Why">
      <p>{explanation.text}</p>
      {explanation.fix && <p class="dim">{explanation.fix}</p>}
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
          <Link to={jobsAt({ key: id })}>Jobs with this as their key</Link>
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
      {write.value && <Acts job={job} />}
      <Links {...data} />
      <Why explanation={explanation} />
      <div class="columns">
        <section>
          <h2>What happened</h2>
          <Timeline job={job} />
        </section>
        <section>
          <h2>Facts</h2>
          <Facts of={factsOf(job)} />
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
