/** Lanes over time: a line for each worker, with bars for its states and ticks for what it did. */
export interface Bar {
  readonly from: number;
  readonly to: number;
  readonly is: 'good' | 'worry' | 'bad' | 'lane';
}

export interface Lane {
  readonly name: string;
  /** What it is now, for those who do not see the colours. */
  readonly now: string;
  readonly bars: readonly Bar[];
  readonly ticks?: readonly number[];
}

const WIDTH = 1_000;
const HEIGHT = 20;

export function Lanes(props: {
  lanes: readonly Lane[];
  endAt: number;
  now: number;
  marks?: readonly number[];
}) {
  const { lanes, endAt, now, marks = [] } = props;
  const x = (at: number) => (WIDTH * Math.min(at, endAt)) / Math.max(1, endAt);
  return (
    <div class="lanes">
      {lanes.map(({ name, now: state, bars, ticks = [] }) => (
        <div class="lane-row" key={name}>
          <span class="lane-name">
            <b>{name}</b> <span class="dim">{state}</span>
          </span>
          <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
            <rect class="lane" width={WIDTH} height={HEIGHT} />
            {bars.map(({ from, to, is }) => (
              <rect class={is} x={x(from)} y="4" width={Math.max(1, x(to) - x(from))} height="12" />
            ))}
            {ticks.map((at) => (
              <rect class="tick" x={x(at) - 1} width="2" height={HEIGHT} />
            ))}
            {marks.map((at) => (
              <rect class="mark" x={x(at) - 1} width="2" height={HEIGHT} />
            ))}
            <rect class="now" x={x(now) - 1} width="2" height={HEIGHT} />
          </svg>
        </div>
      ))}
      <div class="axis">
        <span>0 s</span>
        <span>{`${Math.round(endAt / 1_000)} s`}</span>
      </div>
    </div>
  );
}
