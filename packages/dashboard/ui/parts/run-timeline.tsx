/**
 * The steps of a run as bars over time, in the order in which they began. A row opens and shows what is known of its step. Long
 * times are drawn shorter than they are: otherwise one night hides every step beside it.
 */
import { Facts } from '@holdfast/lab';
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { useAsked } from '../state/api';
import { serverNow } from '../state/live';
import type { RunAnswer, ShownStep } from '../state/wire';
import { Failed, Link, Waiting, When } from './bits';
import { count, pretty, span } from './format';
import { quoted } from './run-bits';

const WIDTH = 1_000;
/** So that the shortest step is seen. */
const MIN_BAR = 5;
/** Times below this are drawn as they are; each doubling above it takes the same width. */
const SHORT_MS = 20;

/** From a time to its place: every stretch between two moments gets the logarithm of its length. */
function scaleOf(moments: readonly number[]): (at: number) => number {
  const sorted = [...new Set(moments)].sort((a, b) => a - b);
  const places = [0];
  for (let n = 1; n < sorted.length; n++) {
    const ms = (sorted[n] as number) - (sorted[n - 1] as number);
    places.push((places[n - 1] as number) + Math.log2(1 + ms / SHORT_MS));
  }
  const whole = places.at(-1) || 1;
  const byTime = new Map(sorted.map((at, n) => [at, ((places[n] as number) / whole) * WIDTH]));
  return (at) => byTime.get(at) ?? WIDTH;
}

const KINDS: Readonly<Record<string, string>> = {
  ...{ step: 'work', transaction: 'work', undo: 'undo' },
  ...{ wait: 'wait', sleep: 'wait', children: 'wait' },
};

/** Of one that was tried several times: it waited first, and its last try came at the end. */
function barsOf(step: ShownStep, from: number, to: number, place: (at: number) => number) {
  const { kind, state, attempts } = step;
  const [x, end] = [place(from), place(to)];
  const width = Math.max(MIN_BAR, end - x);
  const start = Math.min(x, WIDTH - width);
  const tone = state === 'failed' ? 'failed' : (KINDS[kind] ?? 'work');
  const retried = (attempts ?? 1) > 1 || (state === 'waiting' && tone === 'work');
  if (!retried) return [{ x: start, width, tone }];
  const last = Math.max(MIN_BAR, Math.min(width / 3, 30));
  if (state === 'waiting') return [{ x: start, width, tone: 'retry' }];
  return [
    { x: start, width: Math.max(0, width - last), tone: 'retry' },
    { x: start + width - last, width: last, tone },
  ];
}

const tries = ({ attempts }: ShownStep) => ((attempts ?? 1) > 1 ? `, ${attempts} tries` : '');

function Note({ step, run }: { step: ShownStep; run: RunAnswer }): ComponentChildren {
  const { kind, state, ms, name, dueAt, remaining, children } = step;
  const took = ms === null ? '' : span(ms);
  if (kind === 'children') {
    const all = children?.count ?? 0;
    const failed = (children?.dead ?? 0) + (children?.cancelled ?? 0);
    const ended = `${count(all - (remaining ?? 0))} of ${count(all)} ended`;
    return failed > 0 ? `${ended}, ${count(failed)} not completed` : ended;
  }
  if (state === 'dropped') return 'the run ended without it';
  if (kind === 'wait' && state !== 'waiting') {
    const taken = run.signals.find(({ takenBy }) => takenBy === name);
    return `${taken ? `took “${taken.name}”` : run.moreSignals > 0 ? 'ended' : 'timed out'} after ${took}`;
  }
  if (kind === 'sleep' && state !== 'waiting') return `slept ${took}`;
  if (state === 'started') return 'begun, outcome not known yet';
  if (state !== 'waiting')
    return `${state === 'failed' ? 'failed after ' : ''}${took}${tries(step)}`;
  if (dueAt === null) return kind === 'wait' ? `waits for ${quoted(step.signals)}` : 'waits';
  if (kind === 'sleep')
    return (
      <>
        goes on <When at={dueAt} />
      </>
    );
  return (
    <>
      {kind === 'wait' ? `waits for ${quoted(step.signals)}, gives up ` : 'again '}
      <When at={dueAt} />
      {tries(step)}
    </>
  );
}

/** A value that is read when it is asked for. */
export function LateValue({ path }: { path: string }) {
  const { data, error } = useAsked<{ value: unknown }>(path, 0);
  if (error !== null) return <Failed error={error} />;
  // biome-ignore lint/a11y/noNoninteractiveTabindex: who has no mouse scrolls it with the arrow keys.
  return data ? <pre tabIndex={0}>{pretty(data.value)}</pre> : <Waiting />;
}

const TITLES: Readonly<Record<string, string>> = {
  ...{ step: 'step', transaction: 'transaction', sleep: 'sleep', wait: 'wait for a signal' },
  ...{ children: 'children', undo: 'undo of a step' },
};

const Children = ({ of }: { of: NonNullable<ShownStep['children']> }) => {
  const links = (all: typeof of.first) =>
    all.map(({ n, id }) => (
      <>
        <Link to={`jobs/${id}`}>{`child ${count(n + 1)}`}</Link>{' '}
      </>
    ));
  return (
    <p>
      {links(of.first)}
      {of.count > of.first.length && <span class="dim">{`of ${count(of.count)} `}</span>}
      {of.failed.length > 0 && <>· not completed: {links(of.failed)}</>}
    </p>
  );
};

function Detail({ step, id }: { step: ShownStep; id: string }) {
  const { name, kind, state, error, children, attempts } = step;
  const hasValue = state === 'done' && /^(step|transaction|wait)$/.test(kind);
  return (
    <div class="detail">
      <Facts
        of={{
          Kind: `${TITLES[kind] ?? kind}${step.hasUndo ? ', with an undo' : ''}`,
          Began: <When at={step.startedAt} />,
          Ended: step.endedAt && <When at={step.endedAt} />,
          Tries: attempts !== null && attempts > 1 && attempts,
          'Last try': (attempts ?? 1) > 1 && step.ms !== null && span(step.ms),
        }}
      />
      {children && <Children of={children} />}
      {error && <pre>{`${error.name}: ${error.message}`}</pre>}
      {hasValue && (
        <LateValue path={`api/runs/${id}/value?${new URLSearchParams({ step: name })}`} />
      )}
    </div>
  );
}

type Place = (at: number) => number;

function Step(props: { step: ShownStep; run: RunAnswer; place: Place; now: number }) {
  const { step, run, place, now } = props;
  const [open, setOpen] = useState(false);
  const { name, kind, startedAt, endedAt } = step;
  const bars = barsOf(step, Date.parse(startedAt), endedAt ? Date.parse(endedAt) : now, place);
  return (
    <li>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <b title={name}>{kind === 'undo' ? `undo ${name}` : name}</b>
          <svg viewBox={`0 0 ${WIDTH} 16`} preserveAspectRatio="none" aria-hidden="true">
            {bars.map(({ x, width, tone }) => (
              <rect key={tone} class={`bar-${tone}`} x={x} y="1" width={width} height="14" />
            ))}
          </svg>
          <span class="dim">
            <Note step={step} run={run} />
          </span>
        </summary>
        {open && <Detail step={step} id={run.job.id} />}
      </details>
    </li>
  );
}

export function RunTimeline({ run }: { run: RunAnswer }) {
  const { steps, moreSteps, job } = run;
  if (steps.length === 0)
    return (
      <p class="empty small">
        {job.archived ? 'It took no step, or its steps were deleted.' : 'It has taken no step yet.'}
      </p>
    );
  const died = job.status === 'dead_letter' ? job.history.at(-1)?.at : null;
  const ended = job.completedAt ?? died;
  const last = steps.flatMap(({ endedAt }) => (endedAt ? [Date.parse(endedAt)] : []));
  const now = Math.max(ended ? Date.parse(ended) : serverNow(), ...last);
  const begun = steps.map(({ startedAt }) => Date.parse(startedAt));
  const first = moreSteps > 0 ? [] : [Date.parse(job.createdAt)];
  const place = scaleOf([...first, ...begun, ...last, now]);
  return (
    <>
      {moreSteps > 0 && <p class="dim">{`${count(moreSteps)} earlier steps are not shown.`}</p>}
      <ol class="steps">
        {steps.map((step) => (
          <Step key={`${step.kind} ${step.name}`} {...{ step, run, place, now }} />
        ))}
      </ol>
      <p class="dim keys">
        <span class="bar-work">work</span> <span class="bar-wait">wait</span>{' '}
        <span class="bar-retry">retries</span> <span class="bar-failed">failed</span>{' '}
        <span class="bar-undo">undo</span> Long times are drawn shorter than they are.
      </p>
    </>
  );
}
