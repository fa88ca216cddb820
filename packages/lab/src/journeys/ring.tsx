/** Journey 3: the ring, a key's place on it, and what a change of the fleet moves. */
import type { Moved, RingState } from '../engine/ring.js';
import { Do, KeyForm, Panel, percent, Slider, workersText } from '../parts/bits.js';
import { Check, Empty, Table } from '../parts/common.js';
import { RingPicture, Swatch } from '../parts/ring-picture.js';
import { Statements } from '../parts/sql.js';
import { act } from '../player.js';

const BUCKETS = 1_024;

function MovedKeys({ moved }: { moved: Moved | null }) {
  if (!moved) return <Empty small>Add or remove a worker to see how many keys change hands.</Empty>;
  const bars: readonly [string, number][] = [
    ['1/N, the least there can be', moved.least],
    ['The ring', moved.ring],
    ['hash % N', moved.modulo],
  ];
  return (
    <>
      <p>{`${moved.why}: ${moved.buckets} of ${BUCKETS} buckets have another owner.`}</p>
      {bars.map(([name, share]) => (
        <label class="field countdown" key={name}>
          {`${name}: ${percent(share)} of 2,000 keys`}
          <meter min={0} max={1} value={share} />
        </label>
      ))}
    </>
  );
}

const Keys = ({ state }: { state: RingState }) => (
  <KeyForm label="A key of yours" what="key" button="Look up its owner">
    {state.samples.map((sample) => (
      <Do key={sample.key} what={{ do: 'key', key: sample.key }}>
        {sample.key}
      </Do>
    ))}
  </KeyForm>
);

const HEAD = ['Worker', 'Buckets', 'Share', 'Sample keys', 'Acts'];
const Workers = ({ state }: { state: RingState }) => (
  <Table label="Workers and their shares" head={HEAD} numbers={[1, 2]}>
    {state.workers.map(({ id, buckets }, place) => (
      <tr key={id} class={state.key?.owner === id ? 'marked' : undefined}>
        <th scope="row">
          <Swatch owner={place} /> {id}
        </th>
        <td class="number">{buckets}</td>
        <td class="number">{percent(buckets / BUCKETS)}</td>
        <td>{state.samples.flatMap(({ key, owner }) => (owner === id ? key : [])).join(', ')}</td>
        <td>
          <Do what={{ do: 'remove', id }} label={`Remove ${id}`}>
            Remove
          </Do>
        </td>
      </tr>
    ))}
  </Table>
);

export function RingView({ state }: { state: RingState }) {
  const { key, workers, owners } = state;
  const owner = workers.findIndex(({ id }) => id === key?.owner);
  return (
    <>
      <Keys state={state} />
      <div class="acts row">
        <Do what={{ do: 'add' }}>Add a worker</Do>
        <Slider
          label="Points (vnodes) of each worker"
          value={state.points}
          min={1}
          max={200}
          onChange={(points) => void act({ do: 'points', points })}
        />
        <Check checked={state.bounded} onChange={(on) => void act({ do: 'bounded', on })}>
          Nobody gets more than 1.2 × the mean
        </Check>
      </div>
      <p class="dim">Holdfast ships with 320 points and the bound.</p>
      <div class="columns ring-columns">
        <div>
          <RingPicture
            label={`The ring: ${workersText(workers.length)} share ${BUCKETS} buckets`}
            owners={owners}
            bucket={key?.bucket ?? null}
            marked={owner === -1 ? null : owner}
            lines={
              key
                ? [`bucket ${key.bucket}`, key.owner ?? '']
                : [workersText(workers.length), `${BUCKETS} buckets`]
            }
          />
          {key && (
            <p class="dim">{`${key.key} hashes to ${key.hash.toLocaleString('en')} of 2³²: bucket ${key.bucket}, owner ${key.owner}.`}</p>
          )}
        </div>
        <div>
          <Workers state={state} />
          <Panel title="What moved">
            <MovedKeys moved={state.moved} />
          </Panel>
        </div>
      </div>
      <Statements />
    </>
  );
}
