// The producer of a steady load: small inserts at a fixed mean rate, an open loop that waits for
// nobody. Gaps and keys are random and the same for every system. A job carries the moment just
// before its insert was called, so waiting for a connection counts as latency.
import { became, clock, wait } from '../clock.mjs';
import { percentile } from '../statistics.mjs';

/** More inserts under way than this: the rate cannot be held, and offering ends. */
const MAX_UNDER_WAY = 5_000;
const TAIL_MS = 2_000;

/** Mulberry32: small, and the same numbers in every run. */
function seeded(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** Jobs per insert: single ones where they come slowly. */
export const insertSize = (rate) => (rate <= 100 ? 1 : 4);

/**
 * `from` is on the common clock; jobs of the first `warmMs` are not measured. `measured` counts the
 * others, `lateMs` says how late the producer itself was.
 */
export async function offerSteadily(producer, { from, rate, keys, warmMs, ms }) {
  const random = seeded(rate);
  const size = insertSize(rate);
  const gapMs = (size * 1000) / rate;
  const inserts = Math.floor((warmMs + ms) / gapMs);
  const lates = [];
  let [underWay, sent, measured, failed] = [0, 0, 0, 0];
  if (clock() > from) throw new Error('the producer was not ready in time');
  let n = 0;
  for (; n < inserts && underWay < MAX_UNDER_WAY; n++) {
    const due = from + (n + random()) * gapMs;
    for (let left = due - clock(); left > 0; left = due - clock()) await wait(left);
    const at = clock();
    const warm = due < from + warmMs;
    lates.push(at - due);
    const items = Array.from({ length: size }, () => ({
      payload: { orderId: sent++, at, warm },
      ...(keys > 0 && { key: `order:${Math.floor(random() * keys)}` }),
    }));
    if (!warm) measured += size;
    underWay += 1;
    producer
      .many(items)
      .catch(() => {
        failed += size;
      })
      .finally(() => {
        underWay -= 1;
      });
  }
  await became(() => underWay === 0, TAIL_MS, 5);
  const stuck = underWay > 0 || n < inserts;
  return { sent, measured, failed, stuck, lateMs: percentile(lates, 0.99) };
}
