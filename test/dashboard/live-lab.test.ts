/** The hook for a live lab: only where it is passed in, and guarded as every act is. */
import { expect, test } from 'vitest';
import type { LabAct, LabHook, LabState } from '../../packages/dashboard/src/index.js';
import { asking } from '../support/dashboard.js';
import { testDatabase } from '../support/database.js';

const db = testDatabase();
const STATE: LabState = {
  ...{ accepted: 10, done: 8, waiting: 2, deadLetters: 0, lost: 0, doubled: 0, outOfOrder: 0 },
  ...{ perSecond: 3, events: [{ at: 1, text: 'worker 1 is killed (kill -9)' }] },
  workers: [{ number: 2, id: 'w2', condition: 'runs', held: 2 }],
};

function lab(state: LabState | null = STATE) {
  const acted: LabAct[] = [];
  const hook: LabHook = {
    state: () => state,
    async act(given) {
      acted.push(given);
      if (given.act === 'drain') throw new Error('worker 9 is gone; nothing was done');
      return 'done';
    },
  };
  return { acted, hook };
}

test('without the hook there is no lab', async () => {
  const { get, post } = asking(db.hf);
  expect((await get('/api/session')).body).toMatchObject({ lab: false });
  expect(await get('/api/lab')).toMatchObject({ status: 404 });
  expect(await post('/api/lab/act', { act: 'add' })).toMatchObject({ status: 404 });
});

test('with it, its state is shown and acts reach it; what it refuses is a conflict', async () => {
  const { acted, hook } = lab();
  const { get, post } = asking(db.hf, { loopback: true, write: true, lab: hook });
  expect((await get('/api/session')).body).toMatchObject({ lab: true });
  expect((await get('/api/lab')).body).toEqual(STATE);
  expect(await post('/api/lab/act', { act: 'kill', worker: 2 })).toMatchObject({
    status: 200,
    body: { text: 'done' },
  });
  await post('/api/lab/act', { act: 'poison', worker: 'ignored' });
  expect(await post('/api/lab/act', { act: 'drain', worker: 9 })).toMatchObject({
    status: 409,
    body: { error: 'worker 9 is gone; nothing was done' },
  });
  await post('/api/lab/act', { act: 'enqueue', key: 'order:mine' });
  const wrong = [{}, { act: 'explode' }, { act: 'kill' }, { act: 'kill', worker: '1' }];
  for (const body of [...wrong, { act: 'enqueue' }, { act: 'enqueue', key: 7 }])
    expect(await post('/api/lab/act', body)).toMatchObject({ status: 400 });
  expect(acted).toEqual([
    { act: 'kill', worker: 2 },
    { act: 'poison' },
    { act: 'drain', worker: 9 },
    { act: 'enqueue', key: 'order:mine' },
  ]);
  // They are signals to the demo's processes and its orders, and no acts on the system.
  expect((await db.hf.audit()).acts).toEqual([]);
});

test('it is guarded: read-only, from another site, and while it starts', async () => {
  const { acted, hook } = lab(null);
  const reader = asking(db.hf, { loopback: true, lab: hook });
  expect(await reader.post('/api/lab/act', { act: 'add' })).toMatchObject({ status: 403 });
  expect(await reader.get('/api/lab')).toMatchObject({ status: 503 });
  const { post } = asking(db.hf, { loopback: true, write: true, lab: hook });
  const foreign = { 'sec-fetch-site': 'cross-site' };
  expect(await post('/api/lab/act', { act: 'add' }, foreign)).toMatchObject({ status: 403 });
  expect(acted).toEqual([]);
});
