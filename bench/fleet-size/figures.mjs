// Figures of this part: ratios of neighbours in time, seconds, and counts, each beside its goal.
import { median, plain } from '../statistics.mjs';

export const seconds = (ms) =>
  Number.isFinite(ms) ? `${(ms / 1000).toFixed(2)} s` : 'not in time';

/** The median of the ratios of each round, so that a slow moment of the machine meets both. */
export function ratio(figure, name, { values, base, goal, unit = '' }) {
  const ratios = values.map((value, n) => value / base[n]);
  const all = median(ratios);
  const text = Number.isFinite(all) ? `${all.toFixed(2)} x` : 'not in time';
  figure(
    `fleet-size.${name}`,
    `${text} (${plain(median(values))}${unit} against ${plain(median(base))}${unit})`,
    `<= ${goal} x`,
    all <= goal,
  );
}

export const atMost = (figure, name, value, goal, unit = '') =>
  figure(
    `fleet-size.${name}`,
    `${Number.isFinite(value) ? plain(value) : 'not in time'}${unit}`,
    `<= ${goal}${unit}`,
    value <= goal,
  );

export const atLeast = (figure, name, value, goal, unit = '') =>
  figure(`fleet-size.${name}`, `${plain(value)}${unit}`, `>= ${goal}${unit}`, value >= goal);

export const inTime = (figure, name, ms, goalMs) =>
  figure(`fleet-size.${name}`, seconds(ms), `<= ${goalMs / 1000} s`, ms <= goalMs);

export const part = (figure, name, done, all) =>
  figure(`fleet-size.${name}`, `${done} of ${all}`, 'all', done === all);

export const holds = (figure, name, value, does) =>
  figure(`fleet-size.${name}`, value, 'yes', does);

/** Milliseconds between neighbours; the ends of the span count too. */
export function longestGap(times, from, to) {
  let last = from;
  let longest = 0;
  for (const at of [
    ...times.filter((time) => time >= from && time <= to).sort((a, b) => a - b),
    to,
  ]) {
    longest = Math.max(longest, at - last);
    last = at;
  }
  return longest;
}
