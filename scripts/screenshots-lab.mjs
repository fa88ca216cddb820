// Pictures of the lab in docs/images, from the folder that `npm run lab:build` makes. A part of `npm run screenshots`;
// alone: node scripts/screenshots-lab.mjs.
import { spawnSync } from 'node:child_process';
import { createReadStream, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { launch } from './chromium.mjs';

const TYPES = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.wasm': 'application/wasm',
};
const images = fileURLToPath(new URL('../docs/images', import.meta.url));

function serve(folder) {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url, 'http://localhost');
    const file = join(folder, pathname === '/' ? 'index.html' : pathname);
    if (!existsSync(file)) return void response.writeHead(404).end();
    response.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'image/svg+xml' });
    createReadStream(file).pipe(response);
  });
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)));
}

/** By name: the address, the acts of a course that are done first, and what else there is to do. */
const SHOTS = [
  {
    name: 'lab-receipt',
    query: 'journey=receipt&course=stale',
    steps: 6,
    first: 'The queue is empty',
  },
  { name: 'lab-crash', query: 'journey=crash&course=after', steps: 9, first: 'no mail was sent' },
  { name: 'lab-ring', query: 'journey=ring', steps: 2, first: 'Three workers share' },
  { name: 'lab-heartbeat', query: 'journey=heartbeat', end: true, first: 'silence for a TTL' },
  {
    name: 'lab-timing',
    query: 'journey=timing&renew=0&lease=60',
    end: true,
    first: 'worker-a claims',
  },
  { name: 'lab-fleet', query: 'journey=fleet', steps: 16, first: 'Three workers are up' },
];

export async function shootLab({ all = false, to = images } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-lab-'));
  const build = fileURLToPath(new URL('lab-build.mjs', import.meta.url));
  spawnSync(process.execPath, [build, folder], { stdio: 'inherit' });
  const server = await serve(folder);
  const browser = await launch();
  try {
    const url = `http://127.0.0.1:${server.address().port}/`;
    const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
    const page = await context.newPage();
    page.setDefaultTimeout(120_000);
    for (const shot of SHOTS) {
      if (!all && !/receipt|fleet/.test(shot.name)) continue;
      await page.goto(`${url}?${shot.query}`);
      await page.getByText(shot.first).first().waitFor();
      for (let n = 0; n < (shot.steps ?? 0); n++) {
        await page.getByText(`Step ${n + 1} of`).waitFor();
        await page.getByRole('button', { name: 'Step', exact: true }).click();
      }
      if (shot.steps) await page.getByText(`Step ${shot.steps + 1} of`).waitFor();
      if (shot.end) {
        await page.locator('.scrub input').focus();
        await page.keyboard.press('End');
      }
      await page.screenshot({ path: join(to, `${shot.name}.png`), fullPage: all });
      console.log(join(to, `${shot.name}.png`));
      if (!all) continue;
      await page.setViewportSize({ width: 390, height: 800 });
      await page.emulateMedia({ colorScheme: 'dark' });
      await page.screenshot({ path: join(to, `${shot.name}-phone.png`), fullPage: true });
      await page.emulateMedia({ colorScheme: 'light' });
      await page.setViewportSize({ width: 1280, height: 860 });
    }
  } finally {
    await browser.close();
    server.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const to = process.argv[2];
  await shootLab(to ? { all: true, to } : {});
}
