/**
 * The lab in a real Chromium: the seven journeys on the static build, from a plain server of files under a path of its
 * own, and the lab inside the dashboard, under its policy. Postgres is loaded once for all journeys of the build.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, test as anyTest, beforeAll, expect } from 'vitest';
import { serveDashboard } from '../../packages/dashboard/src/index.js';
import { hasBrowser, launch, NO_BROWSER } from '../../scripts/chromium.mjs';
import { newPage, seriousFindings, wrongsOf } from '../support/browser.js';
import { testDatabase } from '../support/database.js';
import { type FileServer, serveFiles } from '../support/file-server.js';
import { long, longOf } from '../support/long.js';

/** Left out only where there is no browser at all, and that is said. */
const test = anyTest.skipIf(!hasBrowser());
/** In short test/lab/journeys.test.ts has them all without a page. */
const longTest = longOf(test);
if (!hasBrowser()) console.warn(`The browser tests of the lab are left out. ${NO_BROWSER}`);

/** Postgres and its migrations, on a busy machine. */
const LOAD_MS = 90_000;
const db = testDatabase();
const folder = mkdtempSync(join(tmpdir(), 'holdfast-lab-'));
let [browser, files, context, page]: [Browser?, FileServer?, BrowserContext?, Page?] = [];
let errors: string[] = [];

beforeAll(async () => {
  if (!hasBrowser()) return;
  const build = fileURLToPath(new URL('../../scripts/lab-build.mjs', import.meta.url));
  const { status, stderr } = spawnSync(process.execPath, [build, folder], { encoding: 'utf8' });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  files = await serveFiles(folder, '/some/where/');
  browser = await launch();
  ({ context, page, errors } = await newPage(browser));
  expectFiles(page, errors);
  await page.goto(files.url);
  await page.getByText('The queue is empty.').waitFor({ timeout: LOAD_MS });
}, 2 * LOAD_MS);

afterAll(async () => {
  const wrongs = page ? await wrongsOf(page) : [];
  await context?.close();
  await browser?.close();
  await files?.close();
  rmSync(folder, { recursive: true, force: true });
  expect([...errors, ...wrongs, ...(files?.missing ?? [])]).toEqual([]);
});

const shown = () => page as Page;
const says = (text: string | RegExp) => shown().getByText(text).first().waitFor();
const click = (name: string) => shown().getByRole('button', { name, exact: true }).click();

/** The engine warns when it has to make its database: the files of the build must fit. */
function expectFiles(of: Page, found: string[]): void {
  of.on('console', (message) => {
    if (message.type() === 'warning') found.push(message.text());
  });
}

/** A journey from its beginning. */
async function go(query: string, first: string | RegExp): Promise<void> {
  const { hash } = new URL(shown().url());
  await shown().evaluate(
    `history.pushState(null, '', '?${query}${hash}'); dispatchEvent(new Event('popstate'))`,
  );
  await shown().getByText(first).first().waitFor({ timeout: LOAD_MS });
}

/** Until the course has no next step. */
async function stepTo(text: string | RegExp): Promise<void> {
  for (let steps = 0; steps < 60; steps++) {
    if (await shown().getByText(text).first().isVisible()) return;
    const button = shown().getByRole('button', { name: 'Step', exact: true });
    const before = await shown().locator('.scrub span').textContent();
    await button.click();
    await expect.poll(() => shown().locator('.scrub span').textContent()).not.toBe(before);
  }
  expect.fail(`the course never said ${text}`);
}

/** Nothing serious for axe, in either colours; and it fits on a telephone. */
async function isFit(): Promise<void> {
  expect(await seriousFindings(shown())).toEqual([]);
  await shown().emulateMedia({ colorScheme: 'dark' });
  expect(await seriousFindings(shown(), 'color-contrast')).toEqual([]);
  await shown().emulateMedia({ colorScheme: 'light' });
  await shown().setViewportSize({ width: 390, height: 800 });
  expect(
    Number(await shown().evaluate('document.documentElement.scrollWidth')),
  ).toBeLessThanOrEqual(390);
  await shown().setViewportSize({ width: 1280, height: 900 });
}

test('1: a receipt by hand, then played, scrubbed and reset; each step shows the row and the statement', async () => {
  await go('journey=receipt&seed=1', 'The queue is empty.');
  await click('Enqueue');
  await says('The row is written');
  await click('Claim');
  await says('worker-a holds it for 90 s');
  await says('FOR UPDATE SKIP LOCKED');
  await click('A second claimer');
  await says('0 rows for worker-b');
  await click('Handler succeeds');
  await says('The row, in holdfast.inbox_archive');
  await isFit();
  await click('Back');
  await says('0 rows for worker-b');
  // What is done by hand follows the last step, and that one says what fits.
  await says('By hand, after step 5');
  const again = shown().getByRole('button', { name: 'Handler succeeds' });
  expect(await again.getAttribute('aria-disabled')).toBe('true');
  await click('Reset');
  await says('There is no row yet.');
  await go('journey=receipt&course=dead-letter', 'The queue is empty.');
  await stepTo('a dead letter, for a person to see');
  await says('2.0 s, 4.0 s, 8.0 s, 16.0 s');
  await go('journey=receipt&course=stale', 'The queue is empty.');
  await shown().getByLabel('Speed').selectOption('8');
  await click('Play');
  await says('Completed: the row left the queue');
  await click('Back');
  await says('0 rows for a completion with generation 1');
});

test('2: two mails without the guard and one with it; the stale worker is refused', async () => {
  await go('journey=crash&course=after', 'no mail was sent');
  await stepTo('It learns that the job is not its own');
  await says('Mailbox: 2');
  await says('Enqueued 2 times, 1 row.');
  await go('journey=crash&course=guard', 'no mail was sent');
  await stepTo('It learns that the job is not its own');
  await says('Mailbox: 1');
  await says('Markers: 1');
  await isFit();
  await go('journey=crash&course=poison', 'no mail was sent');
  await stepTo('that was its last attempt: a dead letter');
});

longTest('3: a key of one’s own, more workers, fewer points', async () => {
  await go('journey=ring', 'Three workers share 1024 buckets.');
  await shown().getByLabel('A key of yours').fill('<b>mine</b>');
  await click('Look up its owner');
  await says('<b>mine</b> is in bucket');
  await click('Add a worker');
  await says(/worker-4 joined: 2\d % of the keys have another owner/);
  await says(/With hash % N it would be 7\d %/);
  await click('Remove worker-2');
  await says('worker-2 left');
  await shown().getByLabel('Points (vnodes) of each worker').fill('1');
  await says('1 point for each worker');
  await isFit();
});

longTest(
  `4: both courses of a kill${long('', ', and the zombie of a freeze')}`,
  async () => {
    await go('journey=heartbeat&fault=kill', 'silence for a TTL');
    const end = async () => {
      const scrub = shown().locator('.scrub input');
      await scrub.focus();
      await shown().keyboard.press('End');
    };
    await end();
    const facts = (title: string) => shown().getByRole('region', { name: title }).textContent();
    expect(await facts('Holdfast’s course: a lock beside the heartbeat')).toMatch(
      /Known to be gone[012]\.\d s after/,
    );
    expect(await facts('The article’s course: silence for a TTL')).toMatch(
      /Known to be gone[23]\d\.\d s after/,
    );
    await isFit();
    // To compute it takes most of a minute of the journey's time, and its outcome is seen in test/lab.
    if (!long(false, true)) return;
    await go('journey=heartbeat&fault=freeze', 'The zombie is back');
    await end();
    await says(/after, \d+ jobs refused/);
  },
  2 * LOAD_MS,
);

longTest('5: sliders, what they come to, and what came of them', async () => {
  await go('journey=timing', 'worker-a claims the job');
  await says('Holdfast’s worker takes these settings.');
  await isFit();
  await go('journey=timing&renew=0&handler=120&lease=60', 'renewEvery cannot be turned off');
  await shown().locator('.scrub input').focus();
  await shown().keyboard.press('End');
  await says('no completion counted');
});

longTest(
  '6: a burst, a kill, and nothing is lost',
  async () => {
    await go('journey=fleet&seed=3', 'Three workers are up');
    await click('A burst of 40');
    await says('40 jobs of 20 keys are enqueued.');
    await click('Kill worker-2');
    await says('SIGKILL to worker-2.');
    await shown().getByLabel('Speed').selectOption('8');
    await click('Play');
    const tile = (name: string) =>
      shown().locator('.tile', { hasText: name }).first().locator('b').textContent();
    await expect.poll(() => tile('Done'), { timeout: LOAD_MS }).toBe('40');
    await click('Pause');
    expect(await tile('Lost')).toBe('0');
    expect(await tile('Completed twice')).toBe('0');
    await isFit();
  },
  2 * LOAD_MS,
);

longTest(
  '7: a checkout is crashed by hand, with its keys and without, and nothing happens twice with them',
  async () => {
    await go('journey=checkout', 'A checkout that nobody disturbs');
    await click('Crash at the next place');
    await says(/worker-\d is killed before .* each effect happened as usual/);
    await says(/Crashes: 1 of \d\d/);
    await isFit();
    await go('journey=checkout&keys=false', 'A checkout that nobody disturbs');
    const record = shown().getByLabel('Where').locator('option', { hasText: 'record_step' });
    const nth = await record.nth(1).getAttribute('value');
    await shown().getByLabel('Where').selectOption(nth);
    await click('Crash there');
    await says('with charge 2 times');
  },
  2 * LOAD_MS,
);

test(
  'inside the dashboard: by its navigation and keys, under its policy, and the dashboard stays small',
  async () => {
    const dashboard = await serveDashboard(db.hf, { port: 0 });
    const sizes = ['', 'app.js', 'app.css', 'icon.svg'].map(async (name) => {
      const file = await fetch(dashboard.url + name);
      return gzipSync(await file.text()).length;
    });
    expect((await Promise.all(sizes)).reduce((sum, size) => sum + size)).toBeLessThan(150_000);
    const own = await newPage(browser as Browser);
    expectFiles(own.page, own.errors);
    try {
      await own.page.goto(dashboard.url);
      await own.page.getByRole('link', { name: 'Lab', exact: true }).click();
      await own.page.getByText('The queue is empty.').waitFor({ timeout: LOAD_MS });
      await own.page.keyboard.press('ArrowRight');
      await own.page.getByText('The row is written').waitFor();
      await own.page.keyboard.press('3');
      await own.page.getByText('Three workers share 1024 buckets.').waitFor();
      expect(new URL(own.page.url()).search).toContain('journey=ring');
      expect([...own.errors, ...(await wrongsOf(own.page))]).toEqual([]);
      await own.page.getByRole('link', { name: 'Dashboard' }).click();
      await own.page.getByRole('heading', { name: 'Overview' }).waitFor();
    } finally {
      await own.context.close();
      await dashboard.close();
    }
  },
  2 * LOAD_MS,
);
