/** The screen of projections: builds and stopped keys, and acts on them, each with its row in the audit. */
import { expect, test } from 'vitest';
import { asking } from '../support/dashboard.js';
import { testDatabase } from '../support/database.js';
import { plantProjection } from '../support/plant-projections.js';

const db = testDatabase();
const PATH = '/api/projections/act';
const stops = () =>
  db.rows('SELECT key, resume, skip FROM holdfast.projection_stops ORDER BY position');

test('builds and stopped keys are shown, and people retry, skip, rebuild, promote and remove', async () => {
  await db.hf.createQueue('projectors', { ordering: 'key' });
  const [, second] = await plantProjection(db, [
    { key: 'order:1', error: 'Error: no price of 4711\n    at apply' },
    { key: 'order:2', error: 'Error: no card' },
    { key: 'order:3', error: 'Error: no card' },
  ]);
  const writes = asking(db.hf, { loopback: true, write: true, actor: 'ada' });
  const { body } = await writes.get('/api/projections');
  expect(body).toMatchObject({
    builds: [
      { name: 'order_totals', version: 1, state: 'live', events: 0, stopped: 3, parked: 6 },
      { version: 2, state: 'building', events: 6, stopped: 0, refused: false },
    ],
    stops: [
      { key: 'order:1', error: 'Error: no price of 4711\n    at apply', parked: 2, resume: false },
      { key: 'order:2', eventId: second },
      { key: 'order:3' },
    ],
    moreStops: false,
  });
  const act = (given: object) => writes.post(PATH, { name: 'order_totals', ...given });
  expect((await act({ verb: 'resume', key: 'order:1' })).body).toEqual({ keys: 1 });
  expect((await act({ verb: 'skip', event: second, reason: 'a test order' })).body).toEqual({
    keys: 1,
  });
  expect(await stops()).toEqual([
    { key: 'order:1', resume: true, skip: false },
    { key: 'order:2', resume: true, skip: true },
    { key: 'order:3', resume: false, skip: false },
  ]);
  expect((await act({ verb: 'rebuild' })).body).toEqual({ build: 3 });
  expect((await act({ verb: 'remove', version: '2' })).body).toEqual({ removed: 1 });
  await db.rows('CREATE SCHEMA order_totals; CREATE SCHEMA order_totals_b3');
  await db.rows(
    `UPDATE holdfast.projections SET version = 3, created = true WHERE state = 'building'`,
  );
  expect((await act({ verb: 'promote', version: '3' })).body).toEqual({ build: 3 });
  const { acts } = await db.hf.audit();
  expect(acts.map((one) => [one.act, one.actor, one.reason]).slice(0, 5)).toEqual([
    ['promote_projection', 'ada', null],
    ['remove_projection', 'ada', null],
    ['rebuild_projection', 'ada', null],
    ['skip_event', 'ada', 'a test order'],
    ['resume_projection', 'ada', null],
  ]);
});

test('a broken request does nothing, a reader may only look, and errors are redacted', async () => {
  await plantProjection(db, [{ key: 'order:1', error: 'Error: 4111 1111 1111 1111' }]);
  const writes = asking(db.hf);
  const name = 'order_totals';
  for (const broken of [
    { verb: 'drop', name },
    { verb: 'resume' },
    { verb: 'resume', name, key: '' },
    { verb: 'skip', name },
    { verb: 'promote', name },
    { verb: 'remove', name, version: 'x' },
  ])
    expect((await writes.post(PATH, broken)).status, JSON.stringify(broken)).toBe(400);
  expect((await writes.post(PATH, { verb: 'resume', name: 'nobody' })).status).toBe(404);
  const looks = asking(db.hf, { loopback: true, write: false, redact: () => '[hidden]' });
  expect((await looks.post(PATH, { verb: 'resume', name })).status).toBe(403);
  expect((await looks.get('/api/projections')).text).not.toContain('4111');
  expect(await stops()).toEqual([{ key: 'order:1', resume: false, skip: false }]);
});
