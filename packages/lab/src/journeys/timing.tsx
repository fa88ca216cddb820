/** Journey 5: six times, what they come to by arithmetic, and what came of them. */
import type { TimingState } from '../engine/timing.js';
import type { Times } from '../engine/timing-worst.js';
import { Panel, Slider, seconds, set } from '../parts/bits.js';
import { Grid, Select } from '../parts/common.js';
import { type Lane, Lanes } from '../parts/lanes.js';
import { Row } from '../parts/row.js';
import { Statements } from '../parts/sql.js';
import { frame, frames } from '../player.js';

type TimeName = Exclude<keyof Times, 'fate'>;

const SLIDERS: readonly [setting: string, of: TimeName, label: string, min: number, max: number][] =
  [
    ['heartbeat', 'heartbeatMs', 'Heartbeat', 1, 60],
    ['ttl', 'ttlMs', 'TTL', 1, 120],
    ['lease', 'leaseMs', 'Lease', 5, 180],
    ['renew', 'renewMs', 'Renewal (0: never)', 0, 120],
    ['maintenance', 'maintenanceMs', 'Maintenance', 1, 60],
    ['handler', 'handlerMs', 'Handler', 1, 240],
  ];

function Sliders({ state }: { state: TimingState }) {
  const stall = ['stall', 'stallMs', 'It stands still for', 0, 120] as const;
  const all = state.times.fate === 'stall' ? [...SLIDERS, stall] : SLIDERS;
  return (
    <fieldset class="acts row">
      <legend>The times</legend>
      {all.map(([name, of, label, min, max]) => (
        <Slider
          key={name}
          {...{ label, min, max }}
          value={state.times[of] / 1_000}
          text={seconds(state.times[of])}
          onChange={(value) => set({ [name]: value })}
        />
      ))}
      <Select
        label="worker-a"
        value={state.times.fate}
        options={[
          ['nothing', 'lives on'],
          ['stall', 'stands still for a while'],
          ['kill', 'is killed'],
        ]}
        onChange={(fate) => set({ fate })}
      />
    </fieldset>
  );
}

const yes = (is: boolean) => (is ? 'yes' : 'no');

/** The arithmetic beside what has happened up to now. */
function Verdicts({ state }: { state: TimingState }) {
  const { computed, played, times } = state;
  const double = played.runs.length > 1 && times.fate !== 'kill';
  const rows: readonly [string, string, string, boolean][] = [
    [
      'False death',
      yes(computed.falseDeath),
      yes(played.deadAt !== null && times.fate !== 'kill'),
      computed.falseDeath,
    ],
    ['Lost lease', yes(computed.lostLease), yes(played.lostAt !== null), computed.lostLease],
    ['Double run', yes(computed.doubleRun), yes(double), computed.doubleRun],
    [
      'Recovery after a kill',
      `at most ${seconds(computed.recoveryMs)}`,
      played.recoveredAt === null ? '–' : seconds(played.recoveredAt),
      false,
    ],
  ];
  return (
    <Panel title="Computed, and played">
      <Grid class="row-table" head={['What', 'Can it be?', 'So far']}>
        {rows.map(([name, could, was, bad]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td class={bad ? 'bad' : undefined}>{could}</td>
            <td>{was}</td>
          </tr>
        ))}
      </Grid>
      <p class={computed.refusal ? 'failed' : 'well'}>
        {computed.refusal ??
          'Holdfast’s worker takes these settings. With its liveness lock a kill is known after 1 to 2 s.'}
      </p>
    </Panel>
  );
}

function lanesOf({ played, times }: TimingState, now: number): Lane[] {
  return ['worker-a', 'worker-b'].map((name) => {
    const runs = played.runs.filter(({ by }) => by === name);
    const dead = name === 'worker-a' && played.deadAt !== null;
    const killedAt = name === 'worker-a' ? played.killedAt : null;
    return {
      name,
      now: `${runs.length} runs${dead ? ', declared dead' : ''}${killedAt === null ? '' : ', is killed'}`,
      bars: runs.map(({ from, to }, place) => ({
        ...{ from, to: to ?? killedAt ?? now },
        is: name === 'worker-b' && place === 0 && times.fate !== 'kill' ? 'bad' : 'good',
      })),
      ticks: dead && played.deadAt !== null ? [played.deadAt] : [],
    };
  });
}

export function TimingView({ state }: { state: TimingState }) {
  const now = frame.value?.at ?? 0;
  const endAt = frames.value.at(-1)?.at ?? 1;
  return (
    <>
      <Sliders state={state} />
      <div class="columns lab-columns">
        <div>
          <Verdicts state={state} />
          <Panel title="Who runs the job">
            <Lanes lanes={lanesOf(state, now)} endAt={endAt} now={now} />
            <p class="dim">
              Green: a run; red: a run beside another. The tick is the moment worker-a was declared
              dead.
            </p>
          </Panel>
          <Row state={state} leaseMs={state.times.leaseMs} />
        </div>
        <Statements />
      </div>
    </>
  );
}
