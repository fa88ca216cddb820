/** Migrations through PgBouncer: many statements in one text, under a lock that many wait for. */
import { expect, test } from 'vitest';
import { holdfast } from '../../packages/holdfast/src/index.js';
import { emptyDatabases } from '../support/empty-database.js';
import { quietLogger } from '../support/logger.js';
import { testPooler } from './ground.js';

const pooler = testPooler();
const emptyDatabase = emptyDatabases();

test('eight processes that migrate an empty database at once end with one and the same schema', async () => {
  const connectionString = pooler().through(await emptyDatabase());
  const all = Array.from({ length: 8 }, () => holdfast({ connectionString, logger: quietLogger }));
  const answers = await Promise.all(all.map((hf) => hf.migrate()));
  const [hf] = all as [(typeof all)[0]];
  const states = await hf.migrationStates();
  expect(states.every(({ appliedAt, known }) => appliedAt !== null && known)).toBe(true);
  expect(answers).toEqual(all.map(() => states));
  expect(await hf.pendingSql()).toBe('');
  expect(await hf.createQueue('outbox')).toBe(true);
  expect(await hf.createQueue('outbox')).toBe(false);
  await Promise.all(all.map((one) => one.close()));
});
