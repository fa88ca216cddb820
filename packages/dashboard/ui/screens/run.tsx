/** One run of a workflow: what it waits for, in words; its steps as a line of time; its signals; and what undo would do. */
import { Button, Facts, Table } from '@holdfast/lab';
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { Failed, Link, Status, Waiting, When } from '../parts/bits';
import { count } from '../parts/format';
import { RunActs } from '../parts/run-acts';
import { Parent } from '../parts/run-bits';
import { LateValue, RunTimeline } from '../parts/run-timeline';
import { useAsked } from '../state/api';
import { write } from '../state/live';
import type { RunAnswer, ShownSignal } from '../state/wire';
import { Value, Why } from './job';

function factsOf({
  job,
  tag,
  parent,
  steps,
  moreSteps,
}: RunAnswer): Record<string, ComponentChildren> {
  const own = steps.filter(({ kind }) => kind !== 'undo');
  const done = own.filter(({ state }) => state === 'done').length;
  const { id, partitionKey: key, attempts, maxAttempts } = job;
  return {
    Queue: `${job.queue}${job.archived ? ' (archive)' : ''}`,
    Version: job.version,
    Key: key !== id && key,
    Tag: tag,
    Parent: parent && <Parent of={parent} />,
    Started: <When at={job.createdAt} />,
    Ended: job.completedAt && <When at={job.completedAt} />,
    Steps: moreSteps === 0 && `${count(done)} of ${count(own.length)} done`,
    'Turns without progress': attempts > 1 && `${attempts} of ${maxAttempts}`,
    Worker: job.claimedBy,
    Id: <code>{id}</code>,
    Job: <Link to={`jobs/${id}`}>its attempts and settings</Link>,
  };
}

function SignalRow({ signal, id }: { signal: ShownSignal; id: string }) {
  const [shown, setShown] = useState(false);
  const { name, sentAt, key, takenBy } = signal;
  return (
    <tr>
      <th scope="row">{name}</th>
      <td>
        <When at={sentAt} />
      </td>
      <td class="key">{key}</td>
      <td class="key">{takenBy ?? <span class="dim">not taken yet</span>}</td>
      <td>
        {shown ? (
          <LateValue
            path={`api/runs/${id}/value?${new URLSearchParams({ signal: name, at: sentAt })}`}
          />
        ) : (
          <Button onClick={() => setShown(true)} aria-label={`Show the value of ${name}`}>
            Show
          </Button>
        )}
      </td>
    </tr>
  );
}

const Signals = ({ run: { signals, moreSignals, job } }: { run: RunAnswer }) => (
  <section class="part">
    <h2>Signals</h2>
    {moreSignals > 0 && <p class="dim">{`${count(moreSignals)} earlier ones are not shown.`}</p>}
    {signals.length === 0 ? (
      <p class="dim">None was sent.</p>
    ) : (
      <Table label="Signals" head={['Signal', 'Sent', 'Key', 'Taken by', 'Value']}>
        {signals.map((signal) => (
          <SignalRow key={signal.sentAt + signal.name} signal={signal} id={job.id} />
        ))}
      </Table>
    )}
  </section>
);

/** While it undoes: why, and what is left; before: what undo would do. */
function Undo({ run: { undo, steps } }: { run: RunAnswer }) {
  const done = steps.filter(({ kind, state }) => kind === 'undo' && state === 'done');
  if (undo.why === null && undo.left.length === 0) return null;
  return (
    <section class="part">
      <h2>{undo.why === null ? 'What undo would do' : 'Undo'}</h2>
      {undo.why !== null && <p>{`Because: ${undo.why}`}</p>}
      {done.length > 0 && <p>{`Undone: ${done.map(({ name }) => name).join(', ')}`}</p>}
      {undo.left.length > 0 && (
        <>
          <p class="dim">
            {undo.why === null
              ? 'If the run fails or is cancelled with undo, in this order:'
              : 'Not undone, in this order:'}
          </p>
          <ol class="numbered">
            {undo.left.map((name) => (
              <li key={name}>{name}</li>
            ))}
          </ol>
        </>
      )}
    </section>
  );
}

export function RunScreen({ id }: { id: string }) {
  const { data, error } = useAsked<RunAnswer>(`api/runs/${encodeURIComponent(id)}`, (run) =>
    run?.job.archived ? 0 : 1,
  );
  if (!data)
    return error ? (
      <>
        <Failed error={error} />
        <p>
          <Link to={`jobs/${id}`}>Look for a job with this id</Link>
        </p>
      </>
    ) : (
      <Waiting />
    );
  const { job, explanation, state } = data;
  return (
    <>
      <div class="title">
        <h1>{job.type}</h1>
        <Status of={state} />
        {job.partitionKey !== job.id && <span class="dim">{job.partitionKey}</span>}
      </div>
      <Failed error={error} />
      <Why explanation={explanation} />
      {write.value && <RunActs run={data} />}
      {job.lastError && state === 'dead_letter' && (
        <details>
          <summary>The whole error</summary>
          <pre>{job.lastError}</pre>
        </details>
      )}
      <section class="part">
        <h2>Timeline</h2>
        <RunTimeline run={data} />
      </section>
      <div class="columns">
        <div>
          <Undo run={data} />
          <Signals run={data} />
        </div>
        <section class="part">
          <h2>Facts</h2>
          <Facts of={factsOf(data)} />
        </section>
      </div>
      <div class="columns">
        <Value name="Input" value={job.payload} />
        {job.status === 'completed' && <Value name="Result" value={job.result} />}
      </div>
    </>
  );
}
