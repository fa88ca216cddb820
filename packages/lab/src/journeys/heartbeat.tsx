/** Journey 4: two courses of the same fleet, one above the other, on one time line. */
import type { FleetPicture, HeartbeatState } from '../engine/heartbeat.js';
import { Panel, Slider, seconds } from '../parts/bits.js';
import { type Bar, type Lane, Lanes } from '../parts/lanes.js';
import { Statements } from '../parts/sql.js';
import { goTo, place } from '../place.js';
import { frame } from '../player.js';

const VICTIM = 'worker-2';
const DEEDS = { kill: 'killed', freeze: 'frozen', stop: 'told to stop' } as const;

function victimBars(state: HeartbeatState, fleet: FleetPicture, now: number): Bar[] {
  const { faultAt } = state;
  if (now <= faultAt) return [{ from: 0, to: now, is: 'good' }];
  const deadAt = fleet.deadAt ?? now;
  const bars: Bar[] = [
    { from: 0, to: faultAt, is: 'good' },
    { from: faultAt, to: deadAt, is: 'worry' },
    { from: deadAt, to: fleet.backAt ?? now, is: 'bad' },
  ];
  if (fleet.backAt !== null) bars.push({ from: fleet.backAt, to: now, is: 'good' });
  return bars;
}

function lanesOf(state: HeartbeatState, fleet: FleetPicture, now: number): Lane[] {
  return fleet.workers.map(({ name, standing, registry, running }) => ({
    name,
    now: `${standing}, registry: ${registry.join(', then ') || '–'}, ${running} running`,
    bars: name === VICTIM ? victimBars(state, fleet, now) : [{ from: 0, to: now, is: 'good' }],
    ticks: fleet.beats.filter(({ by }) => by === name).map(({ at }) => at),
  }));
}

function Facts({ state, fleet }: { state: HeartbeatState; fleet: FleetPicture }) {
  const after = (at: number | null, none: string) =>
    at === null ? none : `${seconds(at - state.faultAt)} after`;
  return (
    <dl class="facts wide">
      <div>
        <dt>Known to be gone</dt>
        <dd>{after(fleet.deadAt, 'not yet')}</dd>
      </div>
      <div>
        <dt>Its jobs, taken over</dt>
        <dd>{`${fleet.taken} of ${fleet.orphans}`}</dd>
      </div>
      <div>
        <dt>The first one runs again</dt>
        <dd>{after(fleet.takenAt, 'not yet')}</dd>
      </div>
      {state.fault === 'freeze' && (
        <div>
          <dt>The zombie is back</dt>
          <dd>
            {fleet.backAt === null
              ? 'not yet'
              : `${after(fleet.backAt, '')}, ${fleet.refused} jobs refused`}
          </dd>
        </div>
      )}
    </dl>
  );
}

function Course(props: { title: string; state: HeartbeatState; fleet: FleetPicture }) {
  const { title, state, fleet } = props;
  const now = frame.value?.at ?? 0;
  return (
    <Panel title={title}>
      <Lanes
        lanes={lanesOf(state, fleet, now)}
        endAt={state.endAt}
        now={now}
        marks={now >= state.faultAt ? [state.faultAt] : []}
      />
      <Facts state={state} fleet={fleet} />
      <ul class="log">
        {fleet.log.slice(-4).map((line) => (
          <li>{line}</li>
        ))}
      </ul>
    </Panel>
  );
}

export function HeartbeatView({ state }: { state: HeartbeatState }) {
  const { settings } = place.value;
  const set = (name: string, value: string | number) =>
    goTo({ settings: { ...settings, [name]: value } });
  return (
    <>
      <fieldset class="acts row">
        <legend>{`What happens to ${VICTIM}`}</legend>
        <label class="inline">
          It is{' '}
          <select value={state.fault} onChange={(event) => set('fault', event.currentTarget.value)}>
            {Object.entries(DEEDS).map(([value, text]) => (
              <option value={value}>{text}</option>
            ))}
          </select>
        </label>
        <Slider
          label="At second"
          value={state.faultAt / 1_000}
          min={5}
          max={30}
          onChange={(value) => set('at', value)}
        />
        <Slider
          label="TTL"
          value={state.ttlMs / 1_000}
          text={seconds(state.ttlMs)}
          min={30}
          max={60}
          step={5}
          onChange={(value) => set('ttl', value)}
        />
      </fieldset>
      <p class="dim">
        Ticks are heartbeats, every 10 s. Green: alive; amber: gone, and nobody knows; red: declared
        dead. The mark is the moment it was struck. A change computes both courses anew.
      </p>
      {state.article && (
        <Course
          title="The article’s course: silence for a TTL"
          state={state}
          fleet={state.article}
        />
      )}
      <Course
        title="Holdfast’s course: a lock beside the heartbeat"
        state={state}
        fleet={state.holdfast}
      />
      <Statements quiet />
    </>
  );
}
