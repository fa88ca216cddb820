// `npm run screenshots`: the demo, its dashboard, and a picture of each screen in docs/images.
import { spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { launch } from './chromium.mjs';
import { shootLab } from './screenshots-lab.mjs';
import { shootWorkflows } from './screenshots-workflows.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = join(root, 'docs/images');
mkdirSync(folder, { recursive: true });

/** Long enough for the charts to have something to show. */
const WARM_MS = 45_000;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const demo = spawn(process.execPath, [join(root, 'apps/demo/dist/main.js'), '--for', '5m'], {
  stdio: ['ignore', 'pipe', 'inherit'],
});
let said = '';
const url = await new Promise((resolve, reject) => {
  demo.stdout.setEncoding('utf8').on('data', (chunk) => {
    said += chunk;
    const found = /http:\/\/127\.0\.0\.1:\d+\//.exec(said)?.[0];
    if (found && said.includes('the shop is open')) resolve(found);
  });
  demo.on('exit', (code) => reject(new Error(`the demo ended with ${code}: ${said}`)));
});

const browser = await launch();
const open = async (width, height, colorScheme) => {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme,
  });
  return context.newPage();
};
const light = await open(1280, 860, 'light');
const dark = await open(1280, 860, 'dark');
const phone = await open(390, 780, 'light');

async function shoot(page, path, name, ready) {
  await page.goto(url + path);
  await page.locator(ready).first().waitFor();
  await pause(500);
  await page.screenshot({ path: join(folder, `${name}.png`) });
  console.log(`docs/images/${name}.png`);
}

try {
  await light.goto(url);
  await dark.goto(url);
  await pause(WARM_MS);
  await light.locator('.problems, .well').waitFor();
  await light.screenshot({ path: join(folder, 'overview.png') });
  await dark.screenshot({ path: join(folder, 'overview-dark.png') });
  // Without a new page: the lanes of heartbeats are of what this one has seen.
  await light.getByRole('link', { name: 'Workers', exact: true }).click();
  await light.getByLabel('with those that are gone').check();
  await light.locator('.beats').first().waitFor();
  await pause(1_000);
  await light.screenshot({ path: join(folder, 'workers.png') });
  await shoot(phone, '', 'overview-phone', '.tiles');
  await shoot(light, 'jobs?queue=orders', 'jobs', 'tbody tr');
  await light.goto(`${url}dead-letters?queue=orders`);
  await light
    .getByRole('link', { name: /^Newest of/ })
    .first()
    .click();
  await light.locator('.timeline').waitFor();
  await pause(300);
  await light.screenshot({ path: join(folder, 'job.png') });
  await shoot(light, 'live-lab', 'live-lab', 'tbody tr');
  await shoot(light, 'ring?queue=orders&key=order:9182', 'ring', '.ring path');
} finally {
  await browser.close();
  demo.kill('SIGINT');
}
await shootLab();
await shootWorkflows();
