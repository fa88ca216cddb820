/** The ring of a queue that is read by key: who comes first for which part of the 1024 buckets, and for a key. */

import { RingPicture, Swatch } from '@holdfast/lab';
import { useState } from 'preact/hooks';
import { Empty, Failed, Table, Title, Waiting } from '../parts/bits';
import { count } from '../parts/format';
import { useAsked } from '../state/api';
import { snapshot } from '../state/live';
import { go, query, withQuery } from '../state/route';
import type { Ring } from '../state/wire';

const BUCKETS = 1024;
/** `marked`: the place of a worker whose arcs stand out. */
function Picture({ ring, marked }: { ring: Ring; marked: number | null }) {
  const bucket = ring.key?.bucket ?? null;
  return (
    <RingPicture
      label={`The ring of ${ring.queue}: ${ring.workers.length} workers share ${BUCKETS} buckets`}
      owners={ring.owners}
      bucket={bucket}
      marked={marked}
      lines={
        bucket === null
          ? [`${ring.workers.length} workers`, `${BUCKETS} buckets`]
          : [`bucket ${bucket}`, '']
      }
    />
  );
}

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
