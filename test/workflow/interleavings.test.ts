/**
 * Random interleavings of what may happen to a run: no wake-up is lost, each signal is taken once and in order, each child
 * is counted once, each step is done once and undone once, and no run is stuck. A failure is shrunk, and says its seed:
 * INTERLEAVINGS_SEED and INTERLEAVINGS_PATH repeat it. INTERLEAVINGS says how many.
 */
import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { testDatabase } from '../support/database.js';
import { long } from '../support/long.js';
import { type Floor, newFloor } from './support/attempts.js';
import { type Command, Interleaving } from './support/interleaving.js';

const { env } = process;
const RUNS = Number(env.INTERLEAVINGS ?? long(60, 2_000));
const seed = Number(env.INTERLEAVINGS_SEED ?? Math.floor(Math.random() * 2 ** 31));

const db = testDatabase();
let floor: Floor;
beforeAll(async () => {
  await db.pool.query('CREATE TABLE did (run uuid NOT NULL, what text NOT NULL)');
  floor = newFloor(db);
});

const which = fc.nat(5);
const open = fc.boolean();
const simply = (name: 'crash' | 'wake' | 'time' | 'cancel') => fc.constant({ do: name });
const command = fc.oneof(
  { weight: 22, arbitrary: fc.record({ do: fc.constant('advance'), which }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('zombie'), which }) },
  { weight: 2, arbitrary: simply('crash') },
  { weight: 2, arbitrary: simply('wake') },
  { weight: 2, arbitrary: simply('time') },
  { weight: 1, arbitrary: simply('cancel') },
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constant('send'), name: fc.constantFrom('a', 'b'), open }),
  },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('end'), which, commit: fc.boolean() }) },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('child'),
      which,
      how: fc.constantFrom('completed', 'completed', 'dead_letter', 'cancelled'),
      open,
    }),
  },
) as fc.Arbitrary<Command>;

const plan = fc.record({
  children: fc.nat(3),
  commands: fc.array(command, { minLength: 10, maxLength: 60, size: 'max' }),
});

test(
  'whatever the order, nothing is lost, doubled or stuck',
  async () => {
    await fc.assert(
      fc.asyncProperty(plan, async (drawn) => {
        expect(await new Interleaving(floor, drawn).run()).toEqual([]);
      }),
      { numRuns: RUNS, seed, ...(env.INTERLEAVINGS_PATH && { path: env.INTERLEAVINGS_PATH }) },
    );
  },
  env.INTERLEAVINGS ? 3_600_000 : long(120_000, 3_600_000),
);
