/** A number in the rooms of claims and workers is one that somebody has to choose, know and defend. So they are few. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const MOST = 25;

/** `const NAME = 250;`, a product of numbers, or a power of them. A part or a multiple of another number does not count. */
const NUMBER = /^(?:export )?const [A-Z][A-Z0-9_]* = ([-\d(][\d_.n* ()/+-]*);/gm;

const numbers = ['claim', 'worker']
  .map((room) => `packages/holdfast/src/${room}`)
  .flatMap((room) =>
    readdirSync(room, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
      .flatMap((file) =>
        [...readFileSync(join(room, file), 'utf8').matchAll(NUMBER)].map(
          ([all]) => `${file}: ${all}`,
        ),
      ),
  );

test(`claims and workers have at most ${MOST} numbers of their own`, () => {
  expect(numbers.length).toBeGreaterThan(10);
  expect(numbers.length, numbers.join('\n')).toBeLessThanOrEqual(MOST);
});
