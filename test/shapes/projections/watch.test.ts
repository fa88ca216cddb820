/** Few events wake projectors by notifications; a busy log pays for none; what arrives while one looks is not missed. */
import { expect, test } from 'vitest';
import { Watch } from '../../../packages/holdfast/src/shapes/projections/shard/watch.js';

const never = new AbortController().signal;

/** One that waits, as a shard does, until notifications were asked for, or refused. */
async function until(watch: Watch, done: () => boolean): Promise<void> {
  while (!done()) await watch.wait(never, watch.hints);
}

test('notifications are asked for when nothing comes, kept while few come, and refused when many do', async () => {
  const asked: boolean[] = [];
  const watch = new Watch({ want: async (on) => asked.push(on) > 0 });
  await until(watch, () => asked.length === 1);
  for (let n = 0; n < 5; n++) {
    const seen = watch.hints;
    watch.hinted();
    // It came while somebody looked.
    await watch.wait(never, seen);
    watch.found();
  }
  expect(asked).toEqual([true]);
  for (let n = 0; n < 200; n++) watch.hinted();
  expect(asked).toEqual([true, false]);
  await until(watch, () => asked.length === 3);
  expect(asked).toEqual([true, false, true]);
  const acts = watch.acts;
  const waiting = watch.wait(never, watch.hints);
  watch.changed();
  await waiting;
  expect(watch.acts).toBe(acts + 1);
});
