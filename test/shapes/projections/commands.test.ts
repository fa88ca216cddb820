/** What an operator sees of projections and does to them: the commands, the metrics, the doctor, and the audit of it. */
import { project, projections } from 'holdfast/projections';
import { expect, test } from 'vitest';
import type { Holdfast } from '../../../packages/holdfast/src/index.js';
import { collectMetrics } from '../../../packages/holdfast/src/metrics/index.js';
import { call, values } from '../../support/cli-run.js';
import { examine } from '../../support/doctor.js';
import { until } from '../../support/until.js';
import {
  ADD,
  agreed,
  MODEL,
  ordersOf,
  type Paid,
  paid,
  RESTORED,
  testLogs,
  testProjectors,
  totalsOf,
} from './ground.js';

const logs = testLogs();
const start = testProjectors();
const UNKNOWN = '0199a1c2-7d3e-7000-8000-000000009182';

const scrape = (hf: Holdfast) => collectMetrics(hf, { freshFor: 0 }).text();

/** Which events are refused, by their cents. */
const refusing = (refused: Set<number>) => ({
  'order.paid': (event: Paid, tx: { query(text: string, values: unknown[]): unknown }) => {
    if (refused.has(event.data.cents)) throw new Error(`not ${event.data.cents}`);
    return tx.query(ADD, [event.key, event.data.cents]);
  },
});

test('the commands list, retry and skip stopped keys, rebuild, promote and remove; metrics and doctor say the same', async () => {
  const { hf, rows, url } = await logs();
  const cli = (...args: string[]) => call(['projections', ...args], { env: { DATABASE_URL: url } });
  const orders = ordersOf(hf);
  expect(await cli('ls')).toMatchObject({ code: 0, err: expect.stringContaining('no projection') });
  for (const args of [['resume'], ['rebuild'], ['promote'], ['rm', '--yes'], ['rebase']])
    expect(await cli(...args, 'nobody'), args[0]).toMatchObject({
      ...{ code: 1, err: expect.stringContaining('There is no projection "nobody"') },
    });
  expect(await cli('skip', 'nobody')).toMatchObject({ code: 2 });

  const refused = new Set([13, 14]);
  await start(hf, [totalsOf(orders, { shards: 1, on: refusing(refused) })]);
  await orders.append([paid('a', 13), paid('b', 14), paid('a', 2), paid('b', 2), paid('c', 1)]);
  await until('two keys have stopped', async () => (await projections(hf).stops()).length === 2);
  const listed = await cli('ls', 'order_totals');
  expect(listed.out).toMatch(
    /^PROJECTION +BUILD +VERSION +STATE +BEHIND +LAG +READ +STOPPED KEYS +TABLES\norder_totals +1 +1 +live +0 +\S* *5 +2 +order_totals\n$/,
  );
  const stops = await cli('stops', '--json');
  expect(values(stops.out)).toMatchObject([
    { key: 'a', parked: 2, type: 'order.paid', resumed: false },
    { key: 'b', parked: 2 },
  ]);
  expect((await cli('stops')).out).toMatch(/^PROJECTION +BUILD +KEY +EVENT[\s\S]*not 13\n/);
  const page = await scrape(hf);
  expect(page).toContain(
    'holdfast_projection_stopped_keys{projection="order_totals",version="1",state="live"} 2\n',
  );
  expect(page).toContain(
    'holdfast_projection_lag_events{projection="order_totals",version="1",state="live"} 0\n',
  );
  const found = (await examine(url, { compared: false })).filter(
    ({ check }) => check === 'projections',
  );
  expect(found).toMatchObject([
    { level: 'problem', text: expect.stringContaining('2 keys stopped'), fix: expect.anything() },
  ]);

  refused.delete(13);
  const kept = await cli('resume', 'order_totals', '--key', 'a', '--reason', 'mended');
  expect(kept).toMatchObject({ code: 0, out: '1 keys go on\n' });
  const [, second] = values<{ eventId: string }>(stops.out);
  const event = second?.eventId ?? '';
  expect(await cli('skip', 'order_totals', event)).toMatchObject({ code: 2 });
  expect(await cli('skip', 'order_totals', UNKNOWN, '--yes')).toMatchObject({
    ...{ code: 0, out: '0 keys go on\n', err: expect.stringContaining('No key stands') },
  });
  expect(await cli('skip', 'order_totals', event, '--yes', '--json')).toMatchObject({
    out: `${JSON.stringify({ name: 'order_totals', event, keys: 1 })}\n`,
  });
  await until('no key stands', async () => (await projections(hf).stops()).length === 0);
  expect(await rows(MODEL)).toMatchObject([
    { key: 'a', line: '13,2' },
    { key: 'b', line: '2' },
    { key: 'c', line: '1' },
  ]);
  refused.clear();

  expect(await cli('rebuild', 'order_totals')).toMatchObject({ out: 'build 2 began\n' });
  await agreed(rows);
  await until('build 2 is live', async () =>
    (await projections(hf).list()).some(({ id, state }) => id === 2 && state === 'live'),
  );
  expect(await cli('rm', 'order_totals')).toMatchObject({ code: 2 });
  expect(await cli('rm', 'order_totals', '--yes')).toMatchObject({
    out: '1 builds were removed\n',
  });

  // A version of which no worker has the code yet: there is nothing that readers could see.
  const next = totalsOf(orders, { shards: 1, version: 2, promote: false });
  await project(hf.worker({ handleSignals: false }), [next]);
  expect(await cli('promote', 'order_totals')).toMatchObject({
    ...{ code: 2, err: expect.stringContaining('has no tables yet') },
  });
  expect(await cli('promote', 'order_totals', '--version', 'x')).toMatchObject({ code: 2 });
  await start(hf, [next]);
  await until('version 2 has caught up', async () =>
    (await projections(hf).list()).some(({ id, applied }) => id === 3 && applied === 5),
  );
  expect(await cli('promote', 'order_totals', '--reason', 'faster')).toMatchObject({
    out: 'build 3 is live\n',
  });
  await agreed(rows);
  const { acts } = await hf.audit();
  expect(acts.map(({ act, reason, changes }) => [act, reason, changes]).slice(0, 5)).toEqual([
    ['promote_projection', 'faster', { projection: 'order_totals' }],
    ['remove_projection', null, { projection: 'order_totals' }],
    ['rebuild_projection', null, { projection: 'order_totals' }],
    ['skip_event', null, { projection: 'order_totals', event }],
    ['resume_projection', 'mended', { projection: 'order_totals', key: 'a' }],
  ]);
});

test('a projection that stands still is seen: far behind, abandoned, or refused until it is rebased', async () => {
  const { hf, rows, url } = await logs();
  const cli = (...args: string[]) => call(['projections', ...args], { env: { DATABASE_URL: url } });
  const orders = ordersOf(hf);
  // Nobody runs: the builds are there, and their workers are not.
  const idle = hf.worker({ handleSignals: false });
  await project(idle, [totalsOf(orders, { shards: 1 })]);
  await orders.append([paid('a', 1), paid('b', 1)]);
  await rows(`UPDATE holdfast.event_log SET written_at = now() - interval '5 minutes'`);
  const seen = async () =>
    (await examine(url, { compared: false })).filter(({ check }) => check === 'projections');
  expect(await seen()).toMatchObject([
    {
      level: 'problem',
      text: expect.stringMatching(/about 2 events behind, the oldest from 30\d s/),
    },
  ]);
  const page = await scrape(hf);
  const labels = '{projection="order_totals",version="1",state="live"}';
  expect(page).toContain(`holdfast_projection_lag_events${labels} 2\n`);
  expect(page).toMatch(/holdfast_projection_lag_seconds\{projection="order_totals"[^}]*\} 30\d/);
  await rows(`UPDATE holdfast.projections SET state = 'old'`);
  expect(await seen()).toMatchObject([
    { level: 'note', text: expect.stringContaining('no longer kept up to date') },
  ]);

  await rows(`UPDATE holdfast.projections SET state = 'live'; ${RESTORED}`);
  expect((await cli('ls')).out).toContain('live, refused');
  expect(await seen()).toMatchObject([
    { level: 'problem', text: expect.stringContaining('another cluster') },
  ]);
  expect(await cli('rebuild', 'order_totals')).toMatchObject({
    ...{ code: 1, err: expect.stringContaining('holdfast projections rebase order_totals') },
  });
  expect(await cli('rebase', 'order_totals', '--reason', 'restored')).toMatchObject({
    out: 'order_totals may start here now\n',
  });
  expect((await projections(hf).list())[0]).toMatchObject({ refused: false, events: 2 });
  expect((await hf.audit()).acts[0]).toMatchObject({
    ...{ act: 'rebase_projection', reason: 'restored' },
  });
});
