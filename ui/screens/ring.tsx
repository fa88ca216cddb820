/** The ring of a queue that is read by key: who comes first for which part of the 1024 buckets, and for a key. */
import { useState } from 'preact/hooks';
import { Empty, Failed, Table, Title, Waiting } from '../parts/bits';
import { useAsked } from '../state/api';
import { snapshot } from '../state/live';
import { go, query, withQuery } from '../state/route';
import type { Ring } from '../state/wire';

const BUCKETS = 1024;
const [OUTER, INNER] = [96, 74];
const COLOURS = 12;

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

/** `marked`: the place of a worker whose arcs stand out. */
function Picture({ ring, marked }: { ring: Ring; marked: number | null }) {
  const label = `The ring of ${ring.queue}: ${ring.workers.length} workers share ${BUCKETS} buckets`;
  return (
    <svg class="ring" viewBox="-100 -100 200 200" role="img" aria-label={label}>
      {arcsOf(ring.owners).map(({ from, to, owner }) => (
        <path
          class={`owner-${owner % COLOURS}${marked === null || marked === owner ? '' : ' faint'}`}
          d={arc(from, to)}
        />
      ))}
      {ring.key && (
        <path
          class="place"
          d={`M ${point(ring.key.bucket + 0.5, 58)} L ${point(ring.key.bucket + 0.5, 99)}`}
        />
      )}
      <text y="-4">
        {ring.key ? `bucket ${ring.key.bucket}` : `${ring.workers.length} workers`}
      </text>
      <text y="10" class="dim">
        {ring.key ? '' : `${BUCKETS} buckets`}
      </text>
    </svg>
  );
}

const share = (buckets: number) => `${((buckets / BUCKETS) * 100).toFixed(1)} %`;

function Shares({ ring, onMark }: { ring: Ring; onMark: (place: number | null) => void }) {
  return (
    <div>
      {ring.key && (
        <p class="why">
          Key <b>{ring.key.key}</b> is in bucket {ring.key.bucket}; <b>{ring.key.worker}</b> comes
          first for it.
        </p>
      )}
      <Table
        label="Shares"
        head={['Worker', 'Buckets', 'Share', 'Moves if it left']}
        numbers={[1, 2, 3]}
      >
        {ring.workers.map(({ id, buckets, leaving }, place) => (
          <tr
            key={id}
            class={ring.key?.worker === id ? 'marked' : undefined}
            onPointerEnter={() => onMark(place)}
            onPointerLeave={() => onMark(null)}
          >
            <th scope="row">
              <svg class="swatch" viewBox="0 0 10 10" aria-hidden="true">
                <rect class={`owner-${place % COLOURS}`} width="10" height="10" rx="2" />
              </svg>{' '}
              {id}
            </th>
            <td class="number">{buckets}</td>
            <td class="number">{share(buckets)}</td>
            <td class="number">{share(leaving)}</td>
          </tr>
        ))}
      </Table>
      <p class="dim">
        {`If one more worker joined, ${share(ring.joining)} of the buckets would move. `}
        The ring is a preference: a worker with a free handler takes any due job.
      </p>
    </div>
  );
}

export function RingScreen() {
  const queues = snapshot.value?.queues ?? [];
  const keyed = queues.find(({ ordering }) => ordering !== 'none')?.queue;
  const queue = query.value.get('queue') ?? keyed ?? queues[0]?.queue ?? null;
  const key = query.value.get('key') ?? '';
  const asked = new URLSearchParams({ queue: queue ?? '', ...(key && { key }) });
  const { data, error } = useAsked<Ring>(queue === null ? null : `api/ring?${asked}`, 2);
  const [pointed, setPointed] = useState<number | null>(null);
  const owner = data?.workers.findIndex(({ id }) => id === data.key?.worker) ?? -1;
  return (
    <>
      <Title>Ring</Title>
      <search>
        <form
          class="filter"
          key={query.value.toString()}
          onSubmit={(event) => {
            event.preventDefault();
            const form = new FormData(event.currentTarget);
            go(withQuery({ queue: String(form.get('queue')), key: String(form.get('key')) }));
          }}
        >
          <label>
            Queue
            <select name="queue" onChange={(event) => event.currentTarget.form?.requestSubmit()}>
              {queues.map((one) => (
                <option selected={one.queue === queue}>{one.queue}</option>
              ))}
            </select>
          </label>
          <label>
            Key
            <input name="key" data-search="" defaultValue={key} placeholder="order:9182" />
          </label>
          <button type="submit">Look up</button>
        </form>
      </search>
      <Failed error={error} />
      {!data ? (
        error === null && <Waiting />
      ) : data.ordering === 'none' ? (
        <Empty>{`${data.queue} is read by time and has no ring: any worker takes the oldest due job.`}</Empty>
      ) : data.workers.length === 0 ? (
        <Empty>{`No live worker handles ${data.queue}.`}</Empty>
      ) : (
        <div class="columns ring-columns">
          <Picture ring={data} marked={pointed ?? (owner === -1 ? null : owner)} />
          <Shares ring={data} onMark={setPointed} />
        </div>
      )}
    </>
  );
}
