/** Journey 4: two courses of the same fleet, one above the other, on one time line. */
import type { FleetPicture, HeartbeatState } from '../engine/heartbeat.js';
import { List, Panel, Slider, seconds, set } from '../parts/bits.js';
import { Facts, Select } from '../parts/common.js';
import { type Bar, type Lane, Lanes } from '../parts/lanes.js';
import { Statements } from '../parts/sql.js';
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

function factsOf(state: HeartbeatState, fleet: FleetPicture) {
  const after = (at: number | null, more = '') =>
    at === null ? 'not yet' : `${seconds(at - state.faultAt)} after${more}`;
  return {
    'Known to be gone': after(fleet.deadAt),
    'Its jobs, taken over': `${fleet.taken} of ${fleet.orphans}`,
    'The first one runs again': after(fleet.takenAt),
    'The zombie is back':
      state.fault === 'freeze' && after(fleet.backAt, `, ${fleet.refused} jobs refused`),
  };
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
      <Facts wide of={factsOf(state, fleet)} />
      <List class="log" of={fleet.log.slice(-4)} />
    </Panel>
  );
}

export function HeartbeatView({ state }: { state: HeartbeatState }) {
  return (
    <>
      <fieldset class="acts row">
        <legend>{`What happens to ${VICTIM}`}</legend>
        <Select
          label="It is"
          value={state.fault}
          options={Object.entries(DEEDS)}
          onChange={(fault) => set({ fault })}
        />
        <Slider
          label="At second"
          value={state.faultAt / 1_000}
          min={5}
          max={30}
          onChange={(at) => set({ at })}
        />
        <Slider
          label="TTL"
          value={state.ttlMs / 1_000}
          text={seconds(state.ttlMs)}
          min={30}
          max={60}
          step={5}
          onChange={(ttl) => set({ ttl })}
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
