/** The registry as one picture: who is in the ring, who leaves it, and whose jobs may be taken. */
import { beforeEach, expect, test } from 'vitest';
import { INBOX, testDatabase } from '../../../../test/support/database.js';
import { findGone } from './liveness.js';
import {
  fleetView,
  type Handles,
  leave,
  lockKeyOf,
  markDraining,
  queueSettings,
  register,
} from './registry.js';

const db = testDatabase();
beforeEach(() => db.rows('DELETE FROM holdfast.workers'));

const enter = (id: string, handles: Handles = {}) =>
  register(db.engine, INBOX, { id, lockKey: lockKeyOf(id), handles, metadata: { host: 'here' } });
const view = () => fleetView(db.engine, INBOX);

test('the picture names the members with what they handle, and the dead; not the draining', async () => {
  const handles = { inbox: { send_receipt: 2, noop: 1 }, outbox: { publish: 1 } };
  await enter('a', handles);
  for (const id of ['b', 'c', 'd', 'e']) await enter(id);
  await markDraining(db.engine, INBOX, 'b');
  await leave(db.engine, INBOX, 'c', false);
  await leave(db.engine, INBOX, 'd', true);
  const { members, dead } = await view();
  expect([...members].sort((one, two) => (one.id < two.id ? -1 : 1))).toEqual([
    { id: 'a', handles },
    { id: 'e', handles: {} },
  ]);
  // One that left with nothing in hand has nothing that others could take.
  expect(dead).toEqual(['c']);
});

test('the epoch rises with every change of membership, and with nothing else', async () => {
  const epochs = [(await view()).epoch];
  const after = async (change: Promise<unknown>) => {
    await change;
    epochs.push((await view()).epoch);
  };
  await after(enter('a'));
  await after(enter('b'));
  await after(findGone(db.engine, INBOX, 'a', { load: { running: 1, held: 2 } }));
  await after(enter('a'));
  await after(markDraining(db.engine, INBOX, 'a'));
  await after(markDraining(db.engine, INBOX, 'a'));
  await after(leave(db.engine, INBOX, 'a', true));
  const first = epochs[0] as number;
  expect(epochs.map((epoch) => epoch - first)).toEqual([0, 1, 2, 2, 2, 3, 3, 4]);
});

test('a heartbeat, which moves a row, does not change the picture', async () => {
  for (const id of ['b', 'a', 'c']) await enter(id);
  const before = await view();
  for (const id of ['c', 'b', 'a', 'b']) await findGone(db.engine, INBOX, id, {});
  expect(await view()).toEqual(before);
});

test('an empty fleet has an epoch, too', async () => {
  const { epoch, ...nobody } = await view();
  expect(epoch).toBeGreaterThan(0);
  expect(nobody).toEqual({ members: [], dead: [] });
});

test('of the dead the picture holds the fifty that were seen last, within the hour', async () => {
  await db.rows(
    `INSERT INTO holdfast.workers (id, status, last_seen_at)
     SELECT 'w' || n, 'dead', now() - n * interval '50 seconds' FROM generate_series(1, 100) AS n`,
  );
  const { dead } = await view();
  expect(dead).toEqual(Array.from({ length: 50 }, (_, n) => `w${n + 1}`));
  await db.rows(`UPDATE holdfast.workers SET last_seen_at = last_seen_at - interval '55 minutes'`);
  expect((await view()).dead).toEqual(['w1', 'w2', 'w3', 'w4', 'w5']);
});

test('a dead worker stays dead, whatever it says', async () => {
  await enter('a');
  expect(await findGone(db.engine, INBOX, 'a', {})).toMatchObject({ beat: true, status: 'alive' });
  await leave(db.engine, INBOX, 'a', false);
  expect(await findGone(db.engine, INBOX, 'a', {})).toMatchObject({ beat: false, status: 'dead' });
  await markDraining(db.engine, INBOX, 'a');
  expect(await view()).toMatchObject({ members: [], dead: ['a'] });
});

test('the settings of a queue are told to the whole fleet', async () => {
  expect(await queueSettings(db.engine, INBOX)).toMatchObject([
    { name: 'inbox', ordering: 'none' },
  ]);
  const { epoch } = await view();
  await db.rows(`UPDATE holdfast.queues SET ordering = 'key' WHERE name = 'inbox'`);
  expect(await queueSettings(db.engine, INBOX)).toMatchObject([{ name: 'inbox', ordering: 'key' }]);
  expect((await view()).epoch).toBe(epoch + 1);
  await db.rows(`UPDATE holdfast.queues SET ordering = 'turns', per_key = 2 WHERE name = 'inbox'`);
  const [before] = await queueSettings(db.engine, INBOX);
  await db.rows(`UPDATE holdfast.queues SET per_key = 3 WHERE name = 'inbox'`);
  const [after] = await queueSettings(db.engine, INBOX);
  expect(after?.limits).not.toBe(before?.limits);
  expect((await view()).epoch).toBe(epoch + 3);
});
