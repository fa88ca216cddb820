/**
 * A chart over the last ten minutes: lines, a grid of three, and the values under the pointer, or the latest. It is a
 * picture of what the tables say in numbers, and is hidden from readers of the screen but for its summary.
 */
import { useState } from 'preact/hooks';
import { span } from './format';

export interface Line {
  readonly name: string;
  readonly values: readonly number[];
  /** 1 to 4: a colour of the style sheet. */
  readonly colour: number;
}

const [WIDTH, HEIGHT, PAD] = [320, 88, 4];

function niceMax(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((one) => one * power >= value) as number;
  return step * power;
}

export function Chart(props: {
  title: string;
  times: readonly number[];
  lines: readonly Line[];
  show: (value: number) => string;
}) {
  const { title, times, lines, show } = props;
  const [at, setAt] = useState<number | null>(null);
  const [from, to] = [times[0] ?? 0, times.at(-1) ?? 0];
  const max = niceMax(Math.max(0, ...lines.flatMap(({ values }) => values)));
  const x = (time: number) => PAD + ((time - from) / Math.max(1, to - from)) * (WIDTH - 2 * PAD);
  const y = (value: number) => HEIGHT - PAD - (value / max) * (HEIGHT - 2 * PAD);
  const place = at === null || at >= times.length ? times.length - 1 : at;
  const points = (values: readonly number[]) =>
    values
      .map((value, n) => `${x(times[n] as number).toFixed(1)},${y(value).toFixed(1)}`)
      .join(' ');
  function follow(event: PointerEvent): void {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const time = from + ((event.clientX - box.left) / box.width) * (to - from);
    const found = times.findIndex((one) => one >= time);
    setAt(found < 0 ? times.length - 1 : found);
  }
  const value = (values: readonly number[]) => {
    const one = values[place];
    return one === undefined ? '–' : show(one);
  };
  const said = lines.map(({ name, values }) => `${name} ${value(values)}`).join(', ');
  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title">{title}</span>
        {lines.map(({ name, values, colour }) => (
          <span class={`legend line-${colour}`}>
            {name} <b>{value(values)}</b>
          </span>
        ))}
      </figcaption>
      {times.length < 2 ? (
        <p class="empty small">Collecting…</p>
      ) : (
        <svg
          viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={`${title}: ${said}`}
          onPointerMove={follow}
          onPointerLeave={() => setAt(null)}
        >
          {[0, 0.5, 1].map((part) => (
            <line class="grid" x1="0" x2={WIDTH} y1={y(part * max)} y2={y(part * max)} />
          ))}
          {lines.map(({ values, colour }) => (
            <polyline class={`line line-${colour}`} points={points(values)} />
          ))}
          {at !== null && at < times.length && (
            <line
              class="pointer"
              x1={x(times[at] as number)}
              x2={x(times[at] as number)}
              y1="0"
              y2={HEIGHT}
            />
          )}
        </svg>
      )}
      {times.length > 1 && (
        <div class="axis">
          <span>{`${span(to - (times[at === null ? 0 : place] as number))} ago`}</span>
          <span>{`max ${show(max)}`}</span>
          <span>now</span>
        </div>
      )}
    </figure>
  );
}

export function Spark({ values, label }: { values: readonly number[]; label: string }) {
  if (values.length < 2) return <span class="dim">–</span>;
  const max = Math.max(1, ...values);
  const points = values
    .map(
      (value, n) =>
        `${((n / (values.length - 1)) * 80).toFixed(1)},${(19 - (value / max) * 18).toFixed(1)}`,
    )
    .join(' ');
  return (
    <svg class="spark" viewBox="0 0 80 20" preserveAspectRatio="none" role="img" aria-label={label}>
      <polyline class="line line-1" points={points} />
    </svg>
  );
}
