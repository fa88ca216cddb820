/** Small parts that every screen uses. All text is text: nothing here makes markup of data. */
import type { ComponentChildren, JSX } from 'preact';
import { serverNow } from '../state/live';
import { go, href } from '../state/route';
import type { LiveQueue } from '../state/wire';
import { span, stateText } from './format';

export function Link(props: {
  to: string;
  children: ComponentChildren;
  class?: string;
  current?: boolean;
  label?: string;
}): JSX.Element {
  const { to } = props;
  return (
    <a
      href={href(to)}
      class={props.class}
      aria-label={props.label}
      aria-current={props.current ? 'page' : undefined}
      onClick={(event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
        event.preventDefault();
        go(to);
      }}
    >
      {props.children}
    </a>
  );
}

/** `name`: what it is called where its colour is that of another state. */
export const Status = ({ of, name = stateText(of) }: { of: string; name?: string }) => (
  <span class={`status is-${of}`}>{name}</span>
);

/** Where a type or a key is paused by itself, the rest of the queue runs. */
export const QueueState = ({ queue }: { queue: LiveQueue }) => {
  const parts = queue.pausedTypes.length + queue.pausedKeys.length;
  if (queue.paused) return <Status of="paused" />;
  return parts > 0 ? <Status of="paused" name="partly paused" /> : <Status of="open" />;
};

/** `3 s ago`, `in 5 min`; the exact time is its title. */
export function When({ at, none = '–' }: { at: string | number | null; none?: string }) {
  if (at === null) return <span class="dim">{none}</span>;
  const time = new Date(at);
  const ms = serverNow() - time.getTime();
  const near = Math.abs(ms) < 1_000;
  const text = near ? 'now' : ms > 0 ? `${span(ms)} ago` : `in ${span(-ms)}`;
  return (
    <time dateTime={time.toISOString()} title={time.toISOString()}>
      {text}
    </time>
  );
}

export const Empty = ({ children }: { children: ComponentChildren }) => (
  <p class="empty">{children}</p>
);

export const Failed = ({ error }: { error: string | null }) =>
  error === null ? null : (
    <p class="failed" role="alert">
      {error}
    </p>
  );

export const Waiting = () => <p class="empty">Reading…</p>;

export function Title({ children, aside }: { children: string; aside?: ComponentChildren }) {
  return (
    <div class="title">
      <h1>{children}</h1>
      {aside}
    </div>
  );
}

/** A table that scrolls by itself where it is too wide. */
export function Table(props: {
  label: string;
  head: readonly (string | JSX.Element)[];
  numbers?: readonly number[];
  children: ComponentChildren;
}) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: who has no mouse scrolls it with the arrow keys.
    <section class="scroll" tabIndex={0} aria-label={props.label}>
      <table>
        <thead>
          <tr>
            {props.head.map((title, place) => (
              <th scope="col" class={props.numbers?.includes(place) ? 'number' : undefined}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{props.children}</tbody>
      </table>
    </section>
  );
}

export function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
