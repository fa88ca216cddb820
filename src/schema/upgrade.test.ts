/**
 * A later version of the code meets today's schema. The next migration does not exist yet, so this file
 * brings one of its own; everything else is the real thing.
 */
import { beforeEach, expect, test, vi } from 'vitest';
import { emptyDatabases, onDatabase } from '../../test/support/empty-database.js';
import { quietLogger } from '../../test/support/logger.js';
import type { Migration } from './migration.js';

const { LATEST } = await vi.importActual<typeof import('./migrations.js')>('./migrations.js');
const NOW = Array.from({ length: LATEST }, (_, n) => ({ id: n + 1 }));

const LATER: Migration = {
  id: LATEST + 1,
  name: 'later',
  breaksBefore: LATEST,
  common: 'CREATE TABLE holdfast.later (id int);',
  perQueue: `ALTER TABLE holdfast.inbox ADD COLUMN later text;
    ALTER TABLE holdfast.inbox ADD CONSTRAINT inbox_later_check CHECK (later <> 'inbox');`,
};

const code = vi.hoisted(() => ({ later: [] as unknown[] }));
vi.mock('./migrations.js', async (original) => {
  const { MIGRATIONS } = await original<typeof import('./migrations.js')>();
  const all = () => [...MIGRATIONS, ...code.later];
  return {
    get MIGRATIONS() {
      return all();
    },
    get LATEST() {
      return all().length;
    },
  };
});

const { holdfast, job } = await import('../index.js');
const makeDatabase = emptyDatabases();
const work = job('work');
let url: string;

beforeEach(async () => {
  url = await makeDatabase();
  code.later = [];
});

async function as<Value>(
  migrations: readonly Migration[],
  act: (hf: ReturnType<typeof holdfast>) => Promise<Value>,
): Promise<Value> {
  code.later = [...migrations];
  const hf = holdfast({ connectionString: url, logger: quietLogger });
  try {
    return await act(hf);
  } finally {
    await hf.close();
  }
}

const columns = async (table: string) =>
  (
    await onDatabase(url, (client) =>
      client.query(
        `SELECT attname FROM pg_attribute WHERE attrelid = $1::regclass AND attname = 'later'`,
        [`holdfast.${table}`],
      ),
    )
  ).rows.length;

const run = (hf: ReturnType<typeof holdfast>) =>
  hf
    .worker({ handleSignals: false })
    .handle(work, () => undefined)
    .run();

test('code that is newer than the schema refuses to start, until it has migrated', async () => {
  await as([], (hf) => hf.migrate());
  await as([LATER], async (hf) => {
    await expect(run(hf)).rejects.toMatchObject({
      code: 'SCHEMA_TOO_OLD',
      message: expect.stringContaining(
        `stands at migration ${LATEST} and this version needs ${LATEST + 1}`,
      ),
    });
    expect(await hf.migrationStates()).toMatchObject([
      ...NOW.map((one) => ({ ...one, appliedAt: expect.any(Date) })),
      { id: LATEST + 1, appliedAt: null, known: true },
    ]);
    expect(await hf.migrate()).toMatchObject([
      ...NOW,
      { id: LATEST + 1, appliedAt: expect.any(Date) },
    ]);
  });
});

test('a migration reaches every queue there is, and queues that come later', async () => {
  await as([], async (hf) => {
    await hf.migrate();
    await hf.createQueue('outbox');
  });
  await as([LATER], async (hf) => {
    await Promise.all([hf.migrate(), hf.migrate(), hf.migrate()]);
    await hf.createQueue('projection');
  });
  for (const table of ['inbox', 'outbox', 'projection']) expect(await columns(table)).toBe(1);
});

test('the printed SQL is what is still missing, for every queue', async () => {
  await as([], async (hf) => {
    await hf.migrate();
    await hf.createQueue('outbox');
  });
  await as([LATER], async (hf) => {
    const sql = await hf.pendingSql();
    expect(sql).not.toContain('CREATE TYPE');
    await onDatabase(url, (client) => client.query(sql));
    expect(await hf.pendingSql()).toBe('');
  });
  for (const table of ['inbox', 'outbox']) expect(await columns(table)).toBe(1);
});

test('old code goes on beside the new schema through a deploy, and old and new code migrate in any order', async () => {
  await as([LATER], (hf) => hf.migrate());
  await as([], async (hf) => {
    expect(await hf.migrate()).toMatchObject([...NOW, { id: LATEST + 1, known: false }]);
    const worker = hf.worker({ handleSignals: false, poll: '20ms' }).handle(work, () => undefined);
    const running = worker.run();
    await hf.enqueue(work, {});
    await expect.poll(() => worker.stats.completed, { timeout: 10_000 }).toBe(1);
    await worker.stop();
    await running;
  });
});

test('old code stops at a new schema that says it cannot be shared', async () => {
  await as([{ ...LATER, breaksBefore: LATEST + 1 }], (hf) => hf.migrate());
  await as([], (hf) => expect(run(hf)).rejects.toMatchObject({ code: 'SCHEMA_TOO_NEW' }));
});

test('a migration that fails leaves the schema at the one before, and the queue works on', async () => {
  await as([], (hf) => hf.migrate());
  const broken = { ...LATER, perQueue: `${LATER.perQueue} SELECT 1 / 0;` };
  await as([broken], (hf) => expect(hf.migrate()).rejects.toMatchObject({ code: '22012' }));
  expect(await columns('inbox')).toBe(0);
  await as([], async (hf) => {
    expect(await hf.migrationStates()).toMatchObject(NOW);
    await hf.enqueue(work, {});
  });
});
