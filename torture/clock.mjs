// How a process gets a wrong clock. `--require` and not `--import`: a thread that is started from a text, as the
// keeper is, loads the first and not the second.
import { fileURLToPath } from 'node:url';

const CLOCK = fileURLToPath(new URL('./actors/clock.cjs', import.meta.url));

/** @param {number} [clockMs] so far ahead, or behind; 0 or nothing: a right one */
export const wrongClock = (clockMs) =>
  clockMs
    ? { execArgv: ['--require', CLOCK], env: { TORTURE_CLOCK_MS: String(clockMs) } }
    : { execArgv: [], env: {} };
