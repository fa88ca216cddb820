/** Pages of one browser for a whole file. What a page complains of fails its test. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, onTestFinished } from 'vitest';
import { hasBrowser, launch } from '../../scripts/chromium.mjs';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

const STANDARDS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'];

interface Finding {
  readonly id: string;
  readonly impact: string;
  readonly nodes: readonly { readonly html: string }[];
}

/** Kept on every page from its first moment: policy reports, and calls that only an injected script makes. */
const WATCH = `
window.wrongs = [];
addEventListener('securitypolicyviolation', (event) =>
  window.wrongs.push('policy: ' + event.violatedDirective + ' ' + event.blockedURI + ' ' + event.sample));
window.alert = window.pwned = (...args) => window.wrongs.push('script: ' + args);
`;

export interface OpenOptions {
  readonly width?: number;
}

/** A page of a context of its own, and what it complains of. */
export async function newPage(browser: Browser, { width = 1280 }: OpenOptions = {}) {
  const context = await browser.newContext({
    viewport: { width, height: 900 },
    colorScheme: 'light',
    reducedMotion: 'reduce',
  });
  await context.addInitScript({ content: WATCH });
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  const errors: string[] = [];
  page.on('pageerror', (error) => void errors.push(error.message));
  page.on('dialog', (dialog) => {
    errors.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  return { context, page, errors };
}

export function testBrowser(wanted = hasBrowser()) {
  let browser: Browser;
  beforeAll(async () => {
    if (wanted) browser = await launch();
  });
  afterAll(() => browser?.close());

  /** A page of its own; what it complains of fails the test. */
  return async function open(url: string, options: OpenOptions = {}): Promise<Page> {
    const { context, page, errors } = await newPage(browser, options);
    onTestFinished(async () => {
      const wrongs = await wrongsOf(page).catch(() => []);
      await context.close();
      expect([...errors, ...wrongs]).toEqual([]);
    });
    await page.goto(url);
    return page;
  };
}

/** Policy reports and scripts that ran on this page so far. */
export const wrongsOf = (page: Page) => page.evaluate('window.wrongs') as Promise<string[]>;

/** What axe calls serious or worse. It is half a megabyte, and loaded only into the pages that it looks at. */
export async function seriousFindings(page: Page, rule?: string): Promise<string[]> {
  if (!(await page.evaluate(`'axe' in window`))) await page.evaluate(`${AXE};0`);
  const { violations } = (await page.evaluate(
    // Of what passes only a count is wanted: to describe each element of it takes most of the time.
    `axe.run({ runOnly: ${JSON.stringify(rule ? [rule] : STANDARDS)}, resultTypes: ['violations'] })`,
  )) as { violations: Finding[] };
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(' | ')}`);
}
