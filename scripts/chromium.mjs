// A Chromium to drive: the one that HOLDFAST_CHROME names, the one of the development packages (Linux on x64, with the
// libraries that it needs), or one that is installed. npm has none for Linux on arm64.
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { chromium } from 'playwright-core';

const NAMES = ['chromium-headless-shell', 'chromium', 'google-chrome', 'google-chrome-stable'];
const MAC = '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome';
const ARGS = [
  ...['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'],
  // The lab runs for seconds: V8 does not earn back what it would optimize of Postgres.
  '--js-flags=--liftoff-only',
];

const isProgram = (path) => {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
};

const bundled = process.platform === 'linux' && process.arch === 'x64';

function installed() {
  const folders = (process.env.PATH ?? '').split(delimiter);
  return [...folders.flatMap((folder) => NAMES.map((name) => join(folder, name))), MAC].find(
    isProgram,
  );
}

export const hasBrowser = () =>
  Boolean(process.env.HOLDFAST_CHROME) || bundled || installed() !== undefined;

export const NO_BROWSER =
  `npm has no Chromium for ${process.platform} on ${process.arch}, and none is installed: ` +
  'install one, or name it in HOLDFAST_CHROME.';

/** The program. The first call unpacks it: processes that do so at once would run a file that is still being written. */
export async function executable() {
  if (process.env.HOLDFAST_CHROME) return process.env.HOLDFAST_CHROME;
  if (!bundled) return installed();
  // Told that it is on Lambda, the package unpacks the libraries beside the browser.
  process.env.AWS_LAMBDA_JS_RUNTIME ??= 'nodejs20.x';
  const { default: packed } = await import('@sparticuz/chromium');
  return packed.executablePath();
}

export async function launch() {
  const executablePath = await executable();
  if (!executablePath) throw new Error(NO_BROWSER);
  return chromium.launch({ executablePath, args: ARGS });
}
