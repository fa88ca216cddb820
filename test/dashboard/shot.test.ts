import { test } from 'vitest';
import { contextOf } from '../../packages/dashboard/src/context.js';
import { handlerOf } from '../../packages/dashboard/src/dashboard.js';
import { checkOptions } from '../../packages/dashboard/src/options.js';
import { listen } from '../../packages/dashboard/src/serve.js';
import { testBrowser } from '../support/browser.js';
import { testDatabase } from '../support/database.js';
import { plantProjection } from '../support/plant-projections.js';
const db = testDatabase();
const open = testBrowser();
test('shot', async () => {
  await plantProjection(db, [
    { key: 'order:9182', error: 'Error: no price of article 4711\n    at apply (totals.ts:7:3)' },
    { key: 'customer:42', error: 'error: value too long for type character varying(20)' },
  ]);
  await db.rows(`INSERT INTO holdfast.projections (name, version, stream, shards, state, tables, created, cluster) VALUES
    ('sales_per_day', 3, 'orders', 8, 'live', 'sales_per_day', true, NULL), ('searches', 1, 'clicks', 1, 'live', NULL, true, 'x')`);
  await db.rows(`INSERT INTO holdfast.projection_cursors (projection_id, shard, first_slice, last_slice) VALUES (3,0,0,31),(4,0,0,31)`);
  const handle = handlerOf(contextOf(db.hf, checkOptions({ loopback: true, write: true }), 250));
  const server = await listen(handle, { host: '127.0.0.1', port: 0, path: '/' });
  const page = await open(`${server.url}projections`);
  await page.getByText('order:9182').first().waitFor();
  await page.screenshot({ path: '/tmp/h/proj-desktop.png' });
  await page.setViewportSize({ width: 390, height: 900 });
  await page.screenshot({ path: '/tmp/h/proj-phone.png', fullPage: true });
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.getByRole('button', { name: 'Skip the event of order:9182' }).click();
  await page.screenshot({ path: '/tmp/h/proj-dark.png' });
  await server.close();
});
