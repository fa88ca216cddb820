// Identifiers: UUID version 7 (RFC 9562), which sort by time and so keep indexes compact. Within one thread each is
// greater than the one before, also when the clock stands still or steps back. 48 bits are milliseconds, 26 bits a counter
// that starts at random in every millisecond (the RFC's dedicated counter), 48 bits random. No decision rests on the time.

import { randomFillSync } from 'node:crypto';

// Six bytes end each identifier; four more may seed the counter. They are never shared: most identifiers are the first of
// their millisecond, and need all of their bits.
const RANDOM_BYTES = 10;
const COUNTER_MAX = 0x3ffffff;

// One call into the crypto library costs far more than the bytes that it returns, so fetch many.
const pool = new Uint8Array(RANDOM_BYTES * 1024);
let poolAt = pool.length;

let lastMs = 0;
let counter = 0;
/** The text of lastMs, kept because it changes once a millisecond at most. */
let timeText = '';

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

export function uuidv7(): string {
  if (poolAt === pool.length) {
    randomFillSync(pool);
    poolAt = 0;
  }
  const at = poolAt;
  poolAt += RANDOM_BYTES;
  tick(at);
  const high = counter >>> 14;
  const low = counter & 0x3fff;
  let text = `${timeText}${HEX[0x70 | (high >>> 8)]}${HEX[high & 0xff]}-`;
  text += `${HEX[0x80 | (low >>> 8)]}${HEX[low & 0xff]}-`;
  for (let n = at; n < at + 6; n++) text += HEX[pool[n]!];
  return text;
}

/** Moves time and counter on: forward with the clock, or by one step where the clock does not. */
function tick(at: number): void {
  const now = Date.now();
  if (now > lastMs) {
    setTime(now);
    counter =
      ((pool[at + 6]! << 24) | (pool[at + 7]! << 16) | (pool[at + 8]! << 8) | pool[at + 9]!) &
      COUNTER_MAX;
  } else if (counter < COUNTER_MAX) {
    counter += 1;
  } else {
    // The counter is full: borrow from the next millisecond, as the RFC allows.
    setTime(lastMs + 1);
    counter = 0;
  }
}

function setTime(ms: number): void {
  lastMs = ms;
  const hex = ms.toString(16).padStart(12, '0');
  timeText = `${hex.slice(0, 8)}-${hex.slice(8)}-`;
}
