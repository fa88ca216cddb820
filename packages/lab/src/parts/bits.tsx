/** Small parts that the journeys share. All text is text. */
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { Act, Settings } from '../engine/frame.js';
import { goTo, place } from '../place.js';
import { act, atEnd, busy, frames, isLive, last } from '../player.js';
import { Button, Empty, Field } from './common.js';

export const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`;
export const percent = (share: number) => `${Math.round(100 * share)} %`;
export const workersText = (count: number) => `${count} ${count === 1 ? 'worker' : 'workers'}`;
export const rowsText = (count: number) => `${count} ${count === 1 ? 'row' : 'rows'}`;

/**
 * Something that a person can do, if it fits after the last step, whichever is shown. One that he cannot keeps the
 * focus: a disabled button would lose it.
 */
export function Do(props: {
  what: Act;
  children: ComponentChildren;
  when?: boolean;
  label?: string;
}) {
  const { what, children, when = true, label } = props;
  const { possible } = (last.value?.state ?? {}) as { possible?: readonly string[] };
  // A fleet that runs on is nearly always busy; what is done to it has its turn.
  const off =
    (busy.value && !isLive.value) || !when || (possible && !possible.includes(what.do)) === true;
  return (
    <Button aria-disabled={off} aria-label={label} onClick={() => off || void act(what)}>
      {children}
    </Button>
  );
}

export const ByHand = ({ children }: { children: ComponentChildren }) => (
  <fieldset class="acts row">
    <legend>{atEnd.value ? 'By hand' : `By hand, after step ${frames.value.length}`}</legend>
    {children}
  </fieldset>
);

/** A key of a person's own and the act for it; other acts stand beside it. */
export function KeyForm(props: {
  label: string;
  what: string;
  button: string;
  children: ComponentChildren;
}) {
  const [key, setKey] = useState('order:9182');
  return (
    <form
      class="filter"
      onSubmit={(event) => {
        event.preventDefault();
        void act({ do: props.what, key });
      }}
    >
      <Field
        label={props.label}
        value={key}
        onInput={(event) => setKey(event.currentTarget.value)}
      />
      <button type="submit">{props.button}</button>
      {props.children}
    </form>
  );
}

export const Panel = ({ title, children }: { title: string; children: ComponentChildren }) => (
  <section class="card" aria-label={title}>
    <h2>{title}</h2>
    {children}
  </section>
);

export function Slider(props: {
  label: string;
  value: number;
  min: number;
  max: number;
  step?: number;
  text?: string;
  onChange: (value: number) => void;
}) {
  return (
    <label class="field slider">
      <span>
        {props.label} <b>{props.text ?? props.value}</b>
      </span>
      <input
        type="range"
        min={props.min}
        max={props.max}
        step={props.step ?? 1}
        value={props.value}
        onChange={(event) => props.onChange(Number(event.currentTarget.value))}
      />
    </label>
  );
}

/** How much of a time is left. */
export function Countdown(props: { label: string; leftMs: number | null; ofMs: number }) {
  if (props.leftMs === null) return null;
  return (
    <label class="field countdown">
      {`${props.label}: ${seconds(props.leftMs)}`}
      <meter min={0} max={props.ofMs} value={props.leftMs} />
    </label>
  );
}

/** What the journey was opened with, but for this. */
export const set = (changes: Settings) =>
  goTo({ settings: { ...place.peek().settings, ...changes } });

/** The items of a list, or why there is none. */
export const List = (props: { class: string; empty?: string; of: readonly ComponentChildren[] }) =>
  props.empty && props.of.length === 0 ? (
    <Empty small>{props.empty}</Empty>
  ) : (
    <ul class={props.class}>
      {props.of.map((item) => (
        <li>{item}</li>
      ))}
    </ul>
  );
