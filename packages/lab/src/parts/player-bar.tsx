/** Play, pause, step, scrub, reset, the speed, and the seed. */
import { goTo, place } from '../place.js';
import {
  at,
  back,
  busy,
  canStep,
  frame,
  frames,
  open,
  pause,
  playing,
  show,
  speed,
  step,
  toggle,
} from '../player.js';
import { seconds } from './bits.js';
import { Button, Field, Select } from './common.js';

const SPEEDS = ['0.5', '1', '2', '4', '8'].map((one) => [one, `${one} ×`] as const);

export function PlayerBar() {
  const count = frames.value.length;
  return (
    <section class="player" aria-label="Player">
      <div class="row">
        <Button
          class="primary"
          aria-disabled={!canStep.value && !playing.value}
          onClick={() => (canStep.value || playing.value) && toggle()}
        >
          {playing.value ? 'Pause' : 'Play'}
        </Button>
        <Button aria-disabled={at.value === 0} onClick={back}>
          Back
        </Button>
        <Button
          aria-disabled={!canStep.value || busy.value}
          onClick={() => {
            pause();
            void step();
          }}
        >
          Step
        </Button>
        <Button onClick={() => void open()}>Reset</Button>
        <output
          class="clock"
          aria-label="Virtual time"
        >{`T+${seconds(frame.value?.at ?? 0)}`}</output>
      </div>
      <label class="scrub">
        <span class="dim">{`Step ${count === 0 ? 0 : at.value + 1} of ${count}`}</span>
        <input
          type="range"
          min={0}
          max={Math.max(0, count - 1)}
          value={at.value}
          disabled={count < 2}
          onInput={(event) => show(Number(event.currentTarget.value))}
        />
      </label>
      <div class="row">
        <Select
          label="Speed"
          value={String(speed.value)}
          options={SPEEDS}
          onChange={(chosen) => {
            speed.value = Number(chosen);
          }}
        />
        <Field
          {...{ label: 'Seed', class: 'inline seed', type: 'number', min: 1, max: 999_999 }}
          value={place.value.seed}
          onChange={(event) => {
            const seed = Math.floor(Number(event.currentTarget.value));
            if (seed >= 1) goTo({ seed });
          }}
        />
      </div>
    </section>
  );
}
