/** What a person can do with a run. Each act is confirmed in a dialog that says what will happen. */
import { Button, Check, Field, Select } from '@holdfast/lab';
import { useState } from 'preact/hooks';
import { actOn, send } from '../state/act';
import type { RunAnswer } from '../state/wire';
import { Dialog, Failed, textsOf } from './bits';

interface Asked {
  readonly run: RunAnswer;
  readonly onClose: () => void;
}

const Why = () => (
  <Field class="field" label="Why (kept in the audit)" name="reason" maxLength={500} />
);

const Buttons = ({
  keep,
  act,
  danger,
  onClose,
}: {
  keep: string;
  act: string;
  danger?: boolean;
  onClose: () => void;
}) => (
  <div class="row end">
    <Button onClick={onClose}>{keep}</Button>
    <button type="submit" class={danger ? 'danger' : 'primary'}>
      {act}
    </button>
  </div>
);

/** Undefined: nothing was written. */
function jsonOf(text: string): unknown {
  return text === '' ? undefined : JSON.parse(text);
}

/** The names that the run waits for now or was sent before; another may be typed. */
const namesOf = ({ steps, signals }: RunAnswer) => [
  ...new Set([
    ...steps.flatMap((step) => (step.state === 'waiting' ? (step.signals ?? []) : [])),
    ...signals.map(({ name }) => name),
  ]),
];

function SignalDialog({ run, name: first, onClose }: Asked & { name: string }) {
  const [error, setError] = useState<string | null>(null);
  const { id, queue } = run.job;
  async function submit(event: SubmitEvent): Promise<void> {
    const text = textsOf(event);
    let value: unknown;
    try {
      value = jsonOf(text('value'));
    } catch (failed) {
      return setError(`The value is no JSON: ${(failed as Error).message}`);
    }
    const name = text('name');
    const body = { queue, name, value, key: text('key'), reason: text('reason') };
    const said = ({ sent }: { sent: boolean }) =>
      sent
        ? `“${name}” was sent.`
        : 'A signal with this key was sent to this run before; it was not sent again.';
    if (await send(`api/runs/${id}/signal`, body, said)) onClose();
  }
  return (
    <Dialog title="Send a signal" onClose={onClose}>
      <form class="stack" onSubmit={(event) => void submit(event)}>
        <Failed error={error} />
        <p>The run keeps it until a wait takes it. It cannot be taken back.</p>
        <Field
          {...{ class: 'field', label: 'Signal', name: 'name', list: 'signals', required: true }}
          defaultValue={first}
          maxLength={200}
        />
        <datalist id="signals">
          {namesOf(run).map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
        <label class="field">
          Value, as JSON (empty: none)
          <textarea name="value" rows={4} spellcheck={false} placeholder={'{"by": "kim"}'} />
        </label>
        <Field class="field" label="Key: the same key is sent once (empty: none)" name="key" />
        <Why />
        <Buttons keep="Do not send" act="Send" onClose={onClose} />
      </form>
    </Dialog>
  );
}

function CancelDialog({ run, onClose }: Asked) {
  const [undo, setUndo] = useState(run.undo.left.length > 0);
  const [children, setChildren] = useState(false);
  const { id, queue } = run.job;
  const { left } = run.undo;
  async function submit(event: SubmitEvent): Promise<void> {
    const body = { queue, undo, children, reason: textsOf(event)('reason') };
    const done = undo ? 'The run undoes what it did, and then ends.' : 'The run is cancelled.';
    const said = ({ moved }: { moved: string[] }) =>
      moved.length > 0 ? done : 'The run had ended meanwhile; nothing was done.';
    if (await send(`api/runs/${id}/cancel`, body, said)) onClose();
  }
  const willUndo = left.map((name) => `“${name}”`).join(', ');
  return (
    <Dialog title="Cancel this run?" onClose={onClose}>
      <form class="stack" onSubmit={(event) => void submit(event)}>
        <p>
          It stops at its next step. A step that runs is told to stop; what it has done stays done.
        </p>
        <Check checked={undo} onChange={setUndo}>
          Undo first what it did
        </Check>
        {undo && (
          <p class="dim">
            {left.length > 0 ? `In this order: ${willUndo}.` : 'No step so far has an undo.'}
          </p>
        )}
        <Check checked={children} onChange={setChildren}>
          Cancel its children, too
        </Check>
        <Why />
        <Buttons
          keep="Keep it"
          act={undo ? 'Cancel and undo' : 'Cancel'}
          danger
          onClose={onClose}
        />
      </form>
    </Dialog>
  );
}

function RetryDialog({ run, onClose }: Asked) {
  const { id, queue } = run.job;
  const names = run.steps.filter(({ kind }) => kind !== 'undo').map(({ name }) => name);
  async function submit(event: SubmitEvent): Promise<void> {
    const text = textsOf(event);
    const body = { queue, from: text('from'), reason: text('reason') };
    const said = ({ moved }: { moved: string[] }) =>
      moved.length > 0 ? 'The run goes on.' : 'It is no dead letter any more; nothing was done.';
    if (await send(`api/runs/${id}/retry`, body, said)) onClose();
  }
  return (
    <Dialog title="Retry this run?" onClose={onClose}>
      <form class="stack" onSubmit={(event) => void submit(event)}>
        <p>
          What is done stays done, and what failed is done again. From a step on: that step and all
          that came after it are done again.
        </p>
        <Select
          {...{ class: 'field', label: 'From', name: 'from' }}
          options={[
            ['', 'where it stopped'],
            ...names.map((name) => [name, `step “${name}”`] as const),
          ]}
        />
        <Why />
        <Buttons keep="Leave it" act="Retry" onClose={onClose} />
      </form>
    </Dialog>
  );
}

export function RunActs({ run }: { run: RunAnswer }) {
  const [asked, setAsked] = useState<'cancel' | 'retry' | { signal: string } | null>(null);
  const { id, queue, archived, status } = run.job;
  if (archived) return null;
  const dead = status === 'dead_letter';
  const wanted = dead
    ? []
    : [
        ...new Set(
          run.steps.flatMap((one) => (one.state === 'waiting' ? (one.signals ?? []) : [])),
        ),
      ];
  const close = () => setAsked(null);
  return (
    <div class="row acts" role="toolbar" aria-label="Acts">
      {wanted.slice(0, 3).map((name) => (
        <Button key={name} class="primary" onClick={() => setAsked({ signal: name })}>
          {`Send “${name}”…`}
        </Button>
      ))}
      {dead && (
        <>
          <Button class="primary" onClick={() => setAsked('retry')}>
            Retry…
          </Button>
          <Button onClick={() => void actOn('discard', queue, [id])}>Discard</Button>
        </>
      )}
      {!dead && (
        <>
          <Button onClick={() => setAsked({ signal: '' })}>Send a signal…</Button>
          <Button onClick={() => setAsked('cancel')}>Cancel…</Button>
        </>
      )}
      {asked === 'cancel' && <CancelDialog run={run} onClose={close} />}
      {asked === 'retry' && <RetryDialog run={run} onClose={close} />}
      {typeof asked === 'object' && asked && (
        <SignalDialog run={run} name={asked.signal} onClose={close} />
      )}
    </div>
  );
}
