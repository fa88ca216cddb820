/** Keys whose jobs always fail hold up themselves and nobody else; a dead letter frees its key. */
import { isDeepStrictEqual } from 'node:util';
import { expect } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { fleetOf, type Step } from '../support/fleet.js';
import { ground } from '../support/ground.js';
import { long, longTest } from '../support/long.js';
import { checkOrder, keepLog, readLog } from '../support/order-log.js';
import { until } from '../support/until.js';

const KEYS = long(500, 1_000);
const [HEALTHY, FAILING] = [long(6, 10), 3];
/** The handler asks for the second attempt in an hour. */
const ATTEMPTS = 2;

longTest(
  `of ${KEYS} keys, the ${KEYS / 10} that always fail do not keep the others from being done`,
  async () => {
    const db = await ground();
    await keepLog(db);
    await db.hf.configureQueue('inbox', { ordering: 'key' });
    const [noop, failing] = [job<Step>('noop'), job<Step>('failing', { maxAttempts: ATTEMPTS })];
    const keys = Array.from({ length: KEYS }, (_, n) => ({
      key: `order:${n}`,
      fails: n % 10 === 0,
    }));
    const bad = keys.filter(({ fails }) => fails).map(({ key }) => key);
    for (let n = 0; n < HEALTHY; n++) {
      await db.hf.enqueueMany(
        keys
          .filter(({ fails }) => !fails || n < FAILING)
          .map(({ key, fails }) => (fails ? failing : noop).item({ n }, { partitionKey: key })),
      );
    }
    await fleetOf(2, db.url);
    const healthy = (KEYS - bad.length) * HEALTHY;
    await db.completed(healthy);

    /** How many jobs of the failing keys have spent how many attempts. */
    const spent = async () => {
      const rows = await db.rows<{ state: string; count: number }>(
        `SELECT (payload ->> 'n') || ' ' || status || ' ' || attempts AS state, count(*)::int
       FROM holdfast.inbox GROUP BY 1`,
      );
      return Object.fromEntries(rows.map(({ state, count }) => [state, count]));
    };
    for (let n = 0; n < FAILING; n++) {
      const all = (from: number, to: number, state: string) =>
        Object.fromEntries(
          Array.from({ length: to - from }, (_, place) => [`${from + place} ${state}`, bad.length]),
        );
      const expected = {
        ...all(0, n, `dead_letter ${ATTEMPTS}`),
        ...all(n, n + 1, 'pending 1'),
        ...all(n + 1, FAILING, 'pending 0'),
      };
      // What stood behind it in its run is given back a moment later.
      await until(`job ${n} of each has failed once, and nothing else runs`, async () =>
        isDeepStrictEqual(await spent(), expected),
      );
      // The hour is over. The last attempt makes the job a dead letter, and the next one of the key starts by itself.
      await db.rows(
        `UPDATE holdfast.inbox SET available_at = now() WHERE (payload ->> 'n')::int = $1
      AND status = 'pending'`,
        [n],
      );
    }
    await until('all of them are dead letters', async () => {
      return (await spent())[`${FAILING - 1} dead_letter ${ATTEMPTS}`] === bad.length;
    });

    const checked = checkOrder(await readLog(db), new Set());
    expect(checked.broken).toEqual([]);
    for (const key of bad) expect(checked.ended.get(key)).toBe(FAILING);
    expect(checked.repeats).toBe(bad.length * FAILING * (ATTEMPTS - 1));
    const archive = await db.rows(
      'SELECT count(*)::int, count(DISTINCT id)::int AS jobs, max(attempts) AS attempts FROM holdfast.inbox_archive',
    );
    expect(archive).toEqual([{ count: healthy, jobs: healthy, attempts: 1 }]);
    // What comes now for a key whose dead letters lie there is done at once.
    await db.hf.enqueueMany(bad.map((key) => noop.item({ n: FAILING }, { partitionKey: key })));
    await db.completed(healthy + bad.length);
  },
  90_000,
);
