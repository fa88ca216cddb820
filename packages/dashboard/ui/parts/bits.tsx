/** Small parts that the screens share, beside those of the lab. All text is text. */
import { Button, Field, following } from '@holdfast/lab';
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { Asked } from '../state/api';
import { serverNow } from '../state/live';
import { go, href, query, withQuery } from '../state/route';
import type { LiveQueue } from '../state/wire';
import { span, stateText } from './format';

export function Link(props: {
  to: string;
  children: ComponentChildren;
  class?: string;
  current?: boolean;
  label?: string;
}): JSX.Element {
  return (
    <a
      href={href(props.to)}
      class={props.class}
      aria-label={props.label}
      aria-current={props.current ? 'page' : undefined}
      onClick={following(() => go(props.to))}
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
  if (queue.stoppedMs !== null) return <Status of="stopped" />;
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

export const Failed = ({ error }: { error: string | null }) =>
  error === null ? null : (
    <p class="failed" role="alert">
      {error}
    </p>
  );

export const Waiting = () => <p class="empty">Reading…</p>;

/** What was asked for as soon as it is there, and what went wrong. */
export function Shown<Value>(props: {
  of: Asked<Value>;
  children: (data: Value) => ComponentChildren;
}) {
  const { data, error } = props.of;
  return (
    <>
      <Failed error={error} />
      {data ? props.children(data) : error === null && <Waiting />}
    </>
  );
}

export function Title({ children, aside }: { children: string; aside?: ComponentChildren }) {
  return (
    <div class="title">
      <h1>{children}</h1>
      {aside}
    </div>
  );
}

/** The ways from a page of a list to others; `next`: where the next one begins. */
export const Pages = (props: {
  next?: string | null | undefined;
  first?: string;
  more?: string;
}) => (
  <nav class="row pages" aria-label="Pages">
    {query.value.has('after') && (
      <Link to={withQuery({ after: null })}>{props.first ?? 'First page'}</Link>
    )}
    {props.next && <Link to={withQuery({ after: props.next })}>{props.more ?? 'Next page'}</Link>}
  </nav>
);

/** What a form says that is sent; the page stays. */
export function textsOf(event: Event): (name: string) => string {
  event.preventDefault();
  const form = new FormData(event.currentTarget as HTMLFormElement);
  return (name) => String(form.get(name) ?? '').trim();
}

/** A field for a whole number of at least 1. */
export const Count = (props: {
  label: string;
  name: string;
  value?: number | null | undefined;
}) => (
  <Field
    {...{ class: 'field grow', label: props.label, name: props.name, type: 'number', min: 1 }}
    defaultValue={props.value ?? ''}
  />
);

/** A form that is filled from the address and becomes the next one. A choice in it is a search. */
export const Search = (props: {
  button?: string;
  onSearch: (text: (name: string) => string) => void;
  children: ComponentChildren;
}) => (
  <search>
    <form
      class="filter"
      key={query.value.toString()}
      onSubmit={(event) => props.onSearch(textsOf(event))}
      onChange={(event) =>
        event.target instanceof HTMLSelectElement && event.currentTarget.requestSubmit()
      }
    >
      {props.children}
      <button type="submit">{props.button ?? 'Search'}</button>
    </form>
  </search>
);

/** Native, so the keyboard, the focus and Escape are the browser's. */
export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    dialog.current?.showModal();
    return () => before?.focus?.();
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby="dialog-title" onClose={props.onClose}>
      <h2 id="dialog-title">{props.title}</h2>
      {props.children}
    </dialog>
  );
}

/** A question before an act. */
export const Confirm = (props: {
  title: string;
  children: string;
  keep: string;
  act: string;
  onAct: () => void;
  onClose: () => void;
}) => (
  <Dialog title={props.title} onClose={props.onClose}>
    <p>{props.children}</p>
    <div class="row end">
      <Button onClick={props.onClose}>{props.keep}</Button>
      <Button
        class="danger"
        onClick={() => {
          props.onAct();
          props.onClose();
        }}
      >
        {props.act}
      </Button>
    </div>
  </Dialog>
);
