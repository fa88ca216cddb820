/** What the pages of the lab and of the dashboard are made of. All text is text: nothing here makes markup of data. */
import { type ComponentChildren, type ComponentProps, type JSX, toChildArray } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

const THEMES = ['auto', 'light', 'dark'];
const themeKept = () => localStorage.getItem('holdfast-theme') ?? 'auto';

/** The links, of which the current one is kept in view, and the colours: light, dark, or as the browser is. */
export function Header(props: {
  brand: ComponentChildren;
  label: string;
  links: ComponentChildren;
  /** What the place of the current link depends on. */
  here: string;
  state?: ComponentChildren;
  children: ComponentChildren;
}) {
  const [theme, setTheme] = useState(themeKept);
  const nav = useRef<HTMLElement>(null);
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem('holdfast-theme', theme);
  }, [theme]);
  useEffect(() => {
    const current = nav.current?.querySelector('[aria-current]');
    current?.scrollIntoView({ inline: 'nearest', block: 'nearest' });
  }, [props.here]);
  const next = () => setTheme((now) => THEMES[(THEMES.indexOf(now) + 1) % 3] as string);
  return (
    <header>
      <span class="brand">{props.brand}</span>
      <nav aria-label={props.label} ref={nav}>
        {props.links}
      </nav>
      <span class="tools">
        {props.state}
        <Button class="plain" onClick={next} aria-label={`Colours: ${theme}`}>
          {theme === 'dark' ? '☾' : theme === 'light' ? '☀' : '◐'}
        </Button>
        {props.children}
      </span>
    </header>
  );
}

/** For a link within the page: a plain click is handled by `go`, any other by the browser. */
export const following = (go: () => void) => (event: MouseEvent) => {
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  go();
};

/** One that submits nothing. */
export const Button = (props: ComponentProps<'button'>) => <button type="button" {...props} />;

interface Labelled {
  readonly label: string;
  readonly class?: string;
}

export const Field = ({ label, class: of, ...input }: Labelled & ComponentProps<'input'>) => (
  <label class={of}>
    {label}
    <input {...input} />
  </label>
);

export function Check(props: {
  checked: boolean;
  onChange: (on: boolean) => void;
  children: ComponentChildren;
}) {
  const { checked, onChange, children } = props;
  return (
    <label class="inline">
      <input
        type="checkbox"
        checked={checked}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      {children}
    </label>
  );
}

/** Options are texts, or values with their texts. */
export function Select(
  props: Labelled & {
    options: readonly (string | readonly [value: string, text: string])[];
    value?: string | undefined;
    name?: string;
    onChange?: (value: string) => void;
  },
) {
  const { label, class: of = 'inline', options, value, name, onChange } = props;
  return (
    <label class={of}>
      {label}
      <select name={name} onChange={(event) => onChange?.(event.currentTarget.value)}>
        {options.map((one) => {
          const [own, text] = typeof one === 'string' ? [one, one] : one;
          return (
            <option key={own} value={own} selected={own === value}>
              {text}
            </option>
          );
        })}
      </select>
    </label>
  );
}

export const Empty = ({ small, children }: { small?: boolean; children: ComponentChildren }) => (
  <p class={small ? 'empty small' : 'empty'}>{children}</p>
);

interface Columns {
  readonly head: readonly (string | JSX.Element)[];
  /** The columns of numbers. */
  readonly numbers?: readonly number[];
  readonly class?: string;
  readonly children: ComponentChildren;
}

export const Grid = ({ head, numbers, class: of, children }: Columns) => (
  <table class={of}>
    <thead>
      <tr>
        {head.map((title, place) => (
          <th scope="col" class={numbers?.includes(place) ? 'number' : undefined}>
            {title}
          </th>
        ))}
      </tr>
    </thead>
    <tbody>{children}</tbody>
  </table>
);

/** A table that scrolls by itself where it is too wide; without a row it says `empty`. */
export const Table = ({ label, empty, ...columns }: Columns & { label: string; empty?: string }) =>
  empty && toChildArray(columns.children).length === 0 ? (
    <Empty>{empty}</Empty>
  ) : (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: who has no mouse scrolls it with the arrow keys.
    <section class="scroll" tabIndex={0} aria-label={label}>
      <Grid {...columns} />
    </section>
  );

/** By name; what is null or false is left out. */
export const Facts = (props: { of: Record<string, ComponentChildren>; wide?: boolean }) => (
  <dl class={props.wide ? 'facts wide' : 'facts'}>
    {Object.entries(props.of).map(
      ([name, value]) =>
        value !== null &&
        value !== false && (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ),
    )}
  </dl>
);

type Figure = readonly [name: string, value: string | number, worry?: boolean];
export const Tiles = ({ label, of }: { label: string; of: readonly Figure[] }) => (
  <ul class="tiles" aria-label={label}>
    {of.map(([name, value, worry]) => (
      <li key={name} class={worry ? 'tile worry' : 'tile'}>
        <span>{name}</span>
        <b>{value}</b>
      </li>
    ))}
  </ul>
);
