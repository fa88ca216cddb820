/** Journey 6: the fleet, its ring, its keys, and the count of what was accepted, done, lost and doubled. */
import type { Counts, FleetState, FleetWorker } from '../engine/fleet.js';
import { Do, KeyForm, List, Panel, percent, workersText } from '../parts/bits.js';
import { Table, Tiles } from '../parts/common.js';
import { RingPicture, Swatch } from '../parts/ring-picture.js';
import { Statements } from '../parts/sql.js';

const BUCKETS = 1_024;

const Sum = ({ counts }: { counts: Counts }) => (
  <Tiles
    label="Counts"
    of={[
      ['Accepted', counts.accepted],
      ['Done', counts.done],
      ['Running', counts.running],
      ['Waiting', counts.waiting],
      ['Dead letters', counts.deadLetters],
      ['Lost', counts.lost, counts.lost > 0],
      ['Ran twice', counts.doubled],
      ['Completed twice', counts.completedTwice, counts.completedTwice > 0],
    ]}
  />
);

const Enqueue = () => (
  <KeyForm label="Key" what="enqueue" button="Enqueue">
    <Do what={{ do: 'burst' }}>A burst of 40</Do>
    <Do what={{ do: 'hot' }}>A hot key: 24</Do>
    <Do what={{ do: 'shards' }}>The same in 8 shards</Do>
    <Do what={{ do: 'poison' }}>A poison job</Do>
    <Do what={{ do: 'add' }}>Add a worker</Do>
  </KeyForm>
);

/** The state of the dashboard that has the colour. */
const COLOURED: Readonly<Record<string, string>> = { killed: 'vanished', frozen: 'paused' };

function WorkerRow({ worker, place }: { worker: FleetWorker; place: number }) {
  const { name, standing, buckets, done, running } = worker;
  const acts: readonly [what: string, text: string, when: boolean][] = [
    ['kill', 'Kill', standing !== 'killed'],
    ['freeze', 'Freeze', !/killed|frozen/.test(standing)],
    ['drain', 'Drain', standing === 'alive'],
  ];
  return (
    <tr>
      <th scope="row">
        <Swatch owner={place} /> {name}
      </th>
      <td>
        <span class={`status is-${COLOURED[standing] ?? standing}`}>{standing}</span>
      </td>
      <td class="number">{percent(buckets / BUCKETS)}</td>
      <td class="number">{done}</td>
      <td class="running">{running.map((job) => `${job.job} (${job.key})`).join(', ') || '–'}</td>
      <td class="row">
        {acts.map(([what, text, when]) => (
          <Do what={{ do: what, who: name }} when={when} label={`${text} ${name}`}>
            {text}
          </Do>
        ))}
      </td>
    </tr>
  );
}

const HEAD = ['Worker', 'State', 'Share', 'Ran', 'Runs now', 'Acts'];
const Workers = ({ workers }: { workers: readonly FleetWorker[] }) => (
  <Table label="Workers" head={HEAD} numbers={[2, 3]}>
    {workers.map((worker, place) => (
      <WorkerRow key={worker.name} worker={worker} place={place} />
    ))}
  </Table>
);

const Keys = ({ keys }: { keys: FleetState['keys'] }) => (
  <Panel title="Keys, and who ran their jobs">
    <List
      class="keys"
      empty="No job was enqueued yet."
      of={keys.map(({ key, waiting, by }) => (
        <>
          <b>{key}</b>
          {` ${by.join(', then ') || 'nobody yet'}`}
          {waiting > 0 && <span class="dim">{` ${waiting} to go`}</span>}
        </>
      ))}
    />
  </Panel>
);

export function FleetView({ state }: { state: FleetState }) {
  const { workers, moved, log } = state;
  const owning = workersText(state.owning);
  return (
    <>
      <Sum counts={state.counts} />
      <Enqueue />
      <Workers workers={workers} />
      <p class="dim">
        The owner of a key comes first for its jobs; where it is busy or gone, a worker with a free
        handler takes them. A killed worker is started again after 3 s, as a supervisor would do it.
        “Ran twice” counts handlers that came to their end twice for one job; its completion counts
        once.
      </p>
      <div class="columns ring-columns">
        <div>
          <RingPicture
            label={`The ring: ${owning} share ${BUCKETS} buckets`}
            owners={state.owners}
            bucket={null}
            marked={null}
            lines={[
              owning,
              moved
                ? `${percent(moved.share)} moved, 1/N is ${percent(moved.least)}`
                : '1024 buckets',
            ]}
          />
        </div>
        <div>
          <Panel title="What happened">
            <List class="log" empty="No job was recovered and no bucket moved yet." of={log} />
          </Panel>
          <Keys keys={state.keys} />
        </div>
      </div>
      <Statements quiet />
    </>
  );
}
