/** Journey 6: the fleet, its ring, its keys, and the count of what was accepted, done, lost and doubled. */

import type { Counts, FleetState, FleetWorker } from '../engine/fleet.js';
import { Do, KeyForm, Panel, percent, Tile, workersText } from '../parts/bits.js';
import { RingPicture, Swatch } from '../parts/ring-picture.js';
import { Statements } from '../parts/sql.js';

const BUCKETS = 1_024;

const Sum = ({ counts }: { counts: Counts }) => (
  <ul class="tiles lab-tiles" aria-label="Counts">
    <Tile name="Accepted" value={counts.accepted} />
    <Tile name="Done" value={counts.done} />
    <Tile name="Running" value={counts.running} />
    <Tile name="Waiting" value={counts.waiting} />
    <Tile name="Dead letters" value={counts.deadLetters} />
    <Tile name="Lost" value={counts.lost} bad={counts.lost > 0} />
    <Tile name="Ran twice" value={counts.doubled} />
    <Tile name="Completed twice" value={counts.completedTwice} bad={counts.completedTwice > 0} />
  </ul>
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

function WorkerRow({ worker, place }: { worker: FleetWorker; place: number }) {
  const { name, standing, buckets, done, running } = worker;
  const here = standing !== 'killed';
  return (
    <tr>
      <th scope="row">
        <Swatch owner={place} /> {name}
      </th>
      <td>
        <span
          class={`status is-${standing === 'killed' ? 'vanished' : standing === 'frozen' ? 'paused' : standing}`}
        >
          {standing}
        </span>
      </td>
      <td class="number">{percent(buckets / BUCKETS)}</td>
      <td class="number">{done}</td>
      <td class="running">{running.map((job) => `${job.job} (${job.key})`).join(', ') || '–'}</td>
      <td class="row">
        <Do what={{ do: 'kill', who: name }} when={here} label={`Kill ${name}`}>
          Kill
        </Do>
        <Do
          what={{ do: 'freeze', who: name }}
          when={here && standing !== 'frozen'}
          label={`Freeze ${name}`}
        >
          Freeze
        </Do>
        <Do what={{ do: 'drain', who: name }} when={standing === 'alive'} label={`Drain ${name}`}>
          Drain
        </Do>
      </td>
    </tr>
  );
}

const Workers = ({ workers }: { workers: readonly FleetWorker[] }) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: who has no mouse scrolls it with the arrow keys.
  <section class="scroll" tabIndex={0} aria-label="Workers">
    <table>
      <thead>
        <tr>
          {['Worker', 'State', 'Share', 'Ran', 'Runs now', 'Acts'].map((title) => (
            <th scope="col" class={/Share|Ran/.test(title) ? 'number' : undefined}>
              {title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {workers.map((worker, place) => (
          <WorkerRow key={worker.name} worker={worker} place={place} />
        ))}
      </tbody>
    </table>
  </section>
);

const Keys = ({ keys }: { keys: FleetState['keys'] }) => (
  <Panel title="Keys, and who ran their jobs">
    {keys.length === 0 && <p class="empty small">No job was enqueued yet.</p>}
    <ul class="keys">
      {keys.map(({ key, waiting, by }) => (
        <li key={key}>
          <b>{key}</b>
          {` ${by.join(', then ') || 'nobody yet'}`}
          {waiting > 0 && <span class="dim">{` ${waiting} to go`}</span>}
        </li>
      ))}
    </ul>
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
            {log.length === 0 && (
              <p class="empty small">No job was recovered and no bucket moved yet.</p>
            )}
            <ul class="log">
              {log.map((line) => (
                <li>{line}</li>
              ))}
            </ul>
          </Panel>
          <Keys keys={state.keys} />
        </div>
      </div>
      <Statements quiet />
    </>
  );
}
