/** One job for a key, however many producers ask for it at once: 50 of them, in five processes. */
import { expect, test } from 'vitest';
import { Child } from '../support/child.js';
import { ground } from '../support/ground.js';
import { long } from '../support/long.js';

const PROCESSES = 5;
const PRODUCERS = 10;
const TERMS = [
  { while: 'pending', onConflict: 'ignore' },
  { while: 'pending', onConflict: 'replace' },
  { while: 'running', onConflict: 'later' },
  { while: 'running', onConflict: 'ignore' },
  { while: 'kept', onConflict: 'ignore' },
] as const;
const ROUNDS = long(TERMS.length, 40 * TERMS.length);

test(
  '50 producers in five processes make one job for a key',
  async () => {
    const db = await ground();
    const fleet = Array.from(
      { length: PROCESSES },
      () => new Child('unique-producer', { url: db.url, producers: PRODUCERS }),
    );
    for (const child of fleet) await child.hears('ready');
    for (let round = 0; round < ROUNDS; round++) {
      const id = `${round}`;
      const unique = { key: `k${round}`, ...TERMS[round % TERMS.length] };
      for (const child of fleet) child.tell({ do: 'enqueue', id, unique });
      const made = await Promise.all(
        fleet.map(async (child) => {
          if (child.heard('error')) throw new Error(JSON.stringify(child.heard('error')));
          return child.hears('made', { id });
        }),
      );
      const ids = new Set(made.flatMap(({ keys }) => keys ?? []));
      const where = JSON.stringify(unique);
      expect(ids.size, where).toBe(1);
      expect(
        made.reduce((sum, { fresh }) => sum + (fresh ?? 0), 0),
        where,
      ).toBe(1);
    }
    expect(await db.rows('SELECT FROM holdfast.inbox')).toHaveLength(ROUNDS);
  },
  long(60_000, 300_000),
);
