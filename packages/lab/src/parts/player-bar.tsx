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

const SPEEDS = [0.5, 1, 2, 4, 8];

export function PlayerBar() {
  const count = frames.value.length;
  return (
    <section class="player" aria-label="Player">
      <div class="row">
        <button
          type="button"
          class="primary"
          aria-disabled={!canStep.value && !playing.value}
          onClick={() => (canStep.value || playing.value) && toggle()}
        >
          {playing.value ? 'Pause' : 'Play'}
        </button>
        <button type="button" aria-disabled={at.value === 0} onClick={back}>
          Back
        </button>
        <button
          type="button"
          aria-disabled={!canStep.value || busy.value}
          onClick={() => {
            pause();
            void step();
          }}
        >
          Step
        </button>
        <button type="button" onClick={() => void open()}>
          Reset
        </button>
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
        <label class="inline">
          Speed{' '}
          <select
            value={speed.value}
            onChange={(event) => {
              speed.value = Number(event.currentTarget.value);
            }}
          >
            {SPEEDS.map((one) => (
              <option value={one}>{`${one} ×`}</option>
            ))}
          </select>
        </label>
        <label class="inline">
          Seed{' '}
          <input
            type="number"
            class="seed"
            min={1}
            max={999_999}
            value={place.value.seed}
            onChange={(event) => {
              const seed = Math.floor(Number(event.currentTarget.value));
              if (seed >= 1) goTo({ seed });
            }}
          />
        </label>
      </div>
    </section>
  );
}
