/** The ring as a picture: the arcs of each owner over 1024 buckets, and the place of a key. */
const BUCKETS = 1024;
const [OUTER, INNER] = [96, 74];
/** Of the owners, in their order, and from the beginning for those that come after. */
const COLOURS = [
  ...['#0b7a75', '#7a5cc4', '#c77d0a', '#2f6fb3', '#b0413e', '#5d8a2f'],
  ...['#b0508f', '#6b7d85', '#2a9d8f', '#9a6b3f', '#4457c0', '#c65d3b'],
];
const colourOf = (owner: number) => COLOURS[owner % COLOURS.length];

function point(bucket: number, radius: number): string {
  const angle = (bucket / BUCKETS) * 2 * Math.PI - Math.PI / 2;
  return `${(radius * Math.cos(angle)).toFixed(2)} ${(radius * Math.sin(angle)).toFixed(2)}`;
}

function arc(from: number, to: number): string {
  // A full circle has no beginning: it is drawn as nearly one.
  const end = to - from >= BUCKETS ? to - 0.01 : to;
  const large = end - from > BUCKETS / 2 ? 1 : 0;
  return (
    `M ${point(from, OUTER)} A ${OUTER} ${OUTER} 0 ${large} 1 ${point(end, OUTER)} ` +
    `L ${point(end, INNER)} A ${INNER} ${INNER} 0 ${large} 0 ${point(from, INNER)} Z`
  );
}

/** Neighbours of one owner are one arc. */
function arcsOf(owners: readonly number[]): { from: number; to: number; owner: number }[] {
  const arcs: { from: number; to: number; owner: number }[] = [];
  for (const [bucket, owner] of owners.entries()) {
    const last = arcs.at(-1);
    if (last?.owner === owner) last.to = bucket + 1;
    else arcs.push({ from: bucket, to: bucket + 1, owner });
  }
  return arcs;
}

export function RingPicture(props: {
  label: string;
  /** By bucket, the number of its owner; -1: nobody. */
  owners: readonly number[];
  /** The bucket of a key. */
  bucket: number | null;
  /** The owner whose arcs stand out. */
  marked: number | null;
  lines: readonly [string, string];
}) {
  const { owners, bucket, marked, lines } = props;
  return (
    <svg class="ring" viewBox="-100 -100 200 200" role="img" aria-label={props.label}>
      {arcsOf(owners)
        .filter(({ owner }) => owner >= 0)
        .map(({ from, to, owner }) => (
          <path
            class={marked === null || marked === owner ? undefined : 'faint'}
            fill={colourOf(owner)}
            d={arc(from, to)}
          />
        ))}
      {bucket !== null && (
        <path class="place" d={`M ${point(bucket + 0.5, 58)} L ${point(bucket + 0.5, 99)}`} />
      )}
      <text y="-4">{lines[0]}</text>
      <text y="10" class="dim">
        {lines[1]}
      </text>
    </svg>
  );
}

export const Swatch = ({ owner }: { owner: number }) => (
  <svg class="swatch" viewBox="0 0 10 10" aria-hidden="true">
    <rect fill={colourOf(owner)} width="10" height="10" rx="2" />
  </svg>
);
