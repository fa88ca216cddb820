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
  readonly dark?: boolean;
}

/** A page of a context of its own, and what it complains of. */
export async function newPage(browser: Browser, { width = 1280, dark = false }: OpenOptions = {}) {
  const context = await browser.newContext({
    viewport: { width, height: 900 },
    colorScheme: dark ? 'dark' : 'light',
    reducedMotion: 'reduce',
  });
  await context.addInitScript({ content: WATCH });
  await context.addInitScript({ content: AXE });
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

export function testBrowser() {
  let browser: Browser;
  beforeAll(async () => {
    if (hasBrowser()) browser = await launch();
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

/** What axe calls serious or worse. */
export async function seriousFindings(page: Page, rule?: string): Promise<string[]> {
  const { violations } = (await page.evaluate(
    `axe.run({ runOnly: ${JSON.stringify(rule ? [rule] : STANDARDS)} })`,
  )) as { violations: Finding[] };
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(' | ')}`);
}
