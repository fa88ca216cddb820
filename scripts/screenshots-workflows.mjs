// A picture of a run of a workflow in docs/images, of a checkout that fails and is undone. A part of `npm run screenshots`;
// alone: node scripts/screenshots-workflows.mjs.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { serveDashboard } from '@holdfast/dashboard';
import { startEmbedded } from '@holdfast/embedded';
import { DeadLetter, holdfast, job, workflow } from 'holdfast';
import { launch } from './chromium.mjs';

const images = fileURLToPath(new URL('../docs/images', import.meta.url));
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const parcel = job('ship_parcel', { maxAttempts: 1 });
const checkout = workflow('checkout', { signals: ['approved', 'refused'] });

/** Its card is charged at the second try, and a parcel is lost, so all is undone. */
async function body(flow) {
  let tries = 0;
  const charge = async () => {
    await pause(380);
    tries += 1;
    if (tries === 1) throw new Error('the bank did not answer');
    return { chargeId: 'ch_3Q81', amount: 4990, currency: 'EUR' };
  };
  await flow.step('charge', charge, {
    undo: () => pause(220),
    retry: { base: '200ms', cap: '200ms' },
  });
  await flow.transaction('reserve', () => 7, { undo: () => {} });
  await Promise.all([
    flow.step('label', () => pause(600).then(() => 'L-1'), { undo: () => pause(150) }),
    flow.step('slip', () => pause(340).then(() => 'S-1')),
  ]);
  await flow.wait('approval', ['approved', 'refused'], { timeout: '2d' });
  const shipped = await flow.children('ship', parcel, [1, 2, 3]);
  const lost = shipped.filter(({ status }) => status !== 'completed').length;
  await flow.step('check parcels', () => {
    if (lost > 0) throw new DeadLetter(`${lost} parcel was not shipped`);
    return null;
  });
}

async function shoot(hf, name) {
  const options = { partitionKey: 'order:9182', tag: 'tenant:42' };
  const run = await hf.enqueue(checkout, { orderId: 9182 }, options);
  await pause(4_000);
  await hf.signal(checkout, run.id, 'approved', { by: 'kim' }, { key: 'approval-9182' });
  const dashboard = await serveDashboard(hf, { port: 0, write: true });
  const browser = await launch();
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 940 } });
    await page.goto(`${dashboard.url}workflows/${run.id}`);
    await page.getByText('Undone: label, reserve, charge').waitFor();
    await page.getByText('Live', { exact: true }).waitFor();
    await page.screenshot({ path: join(images, `${name}.png`) });
    console.log(`docs/images/${name}.png`);
  } finally {
    await browser.close();
    await dashboard.close();
  }
}

export async function shootWorkflows() {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-'));
  const server = await startEmbedded({ dataDir: join(folder, 'data') });
  const hf = holdfast({ connectionString: server.url });
  try {
    await hf.migrate();
    const worker = hf.worker();
    worker.workflow(checkout, body).handle(parcel, async ({ payload }) => {
      await pause(120 * payload);
      if (payload === 3) throw new DeadLetter('the parcel was lost');
    });
    void worker.run();
    await shoot(hf, 'workflow-run');
  } finally {
    await hf.close();
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await shootWorkflows();
