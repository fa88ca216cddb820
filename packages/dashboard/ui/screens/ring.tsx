/** The ring of a queue that is read by key: who comes first for which part of the 1024 buckets, and for a key. */
import { Empty, Field, RingPicture, Select, Swatch, Table } from '@holdfast/lab';
import { useState } from 'preact/hooks';
import { Search, Shown, Title } from '../parts/bits';
import { count } from '../parts/format';
import { useAsked } from '../state/api';
import { snapshot } from '../state/live';
import { go, query, withQuery } from '../state/route';
import type { Ring } from '../state/wire';

const BUCKETS = 1024;
/** `marked`: the place of a worker whose arcs stand out. */
function Picture({ ring, marked }: { ring: Ring; marked: number | null }) {
  const bucket = ring.key?.bucket ?? null;
  const workers = `${ring.workers.length} workers`;
  return (
    <RingPicture
      label={`The ring of ${ring.queue}: ${workers} share ${BUCKETS} buckets`}
      {...{ owners: ring.owners, bucket, marked }}
      lines={bucket === null ? [workers, `${BUCKETS} buckets`] : [`bucket ${bucket}`, '']}
    />
  );
}

const HEAD = ['Worker', 'Buckets', 'Share', 'Moves if it left'];
const share = (buckets: number) => `${((buckets / BUCKETS) * 100).toFixed(1)} %`;

function Shares({ ring, onMark }: { ring: Ring; onMark: (place: number | null) => void }) {
  return (
    <div>
      {ring.key && (
        <p class="why">
          Key <b>{ring.key.key}</b> is in bucket {ring.key.bucket}, at {count(ring.key.position)} of
          the circle’s 2³² places; <b>{ring.key.worker}</b> comes first for it.
        </p>
      )}
      <Table label="Shares" head={HEAD} numbers={[1, 2, 3]}>
        {ring.workers.map(({ id, buckets, leaving }, place) => (
          <tr
            key={id}
            class={ring.key?.worker === id ? 'marked' : undefined}
            onPointerEnter={() => onMark(place)}
            onPointerLeave={() => onMark(null)}
          >
            <th scope="row">
              <Swatch owner={place} /> {id}
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
  const queue = query.value.get('queue') ?? keyed ?? queues[0]?.queue ?? '';
  const key = query.value.get('key') ?? '';
  const list = new URLSearchParams({ queue, ...(key && { key }) });
  const asked = useAsked<Ring>(queue && `api/ring?${list}`, 2);
  const [pointed, setPointed] = useState<number | null>(null);
  const shown = (ring: Ring) => {
    if (ring.ordering === 'none')
      return (
        <Empty>{`${ring.queue} is read by time and has no ring: any worker takes the oldest due job.`}</Empty>
      );
    if (ring.workers.length === 0) return <Empty>{`No live worker handles ${ring.queue}.`}</Empty>;
    const owner = ring.workers.findIndex(({ id }) => id === ring.key?.worker);
    return (
      <div class="columns ring-columns">
        <Picture ring={ring} marked={pointed ?? (owner === -1 ? null : owner)} />
        <Shares ring={ring} onMark={setPointed} />
      </div>
    );
  };
  return (
    <>
      <Title>Ring</Title>
      <Search
        button="Look up"
        onSearch={(text) => go(withQuery({ queue: text('queue'), key: text('key') }))}
      >
        <Select label="Queue" name="queue" value={queue} options={queues.map((one) => one.queue)} />
        <Field label="Key" name="key" data-search="" defaultValue={key} placeholder="order:9182" />
      </Search>
      <Shown of={asked}>{shown}</Shown>
    </>
  );
}
