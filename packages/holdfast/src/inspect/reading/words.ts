/** How long and how many, in words that a person reads at a glance. */

const UNITS: readonly [string, number][] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
];

/** `450 ms`, `3 s`, `2 min 5 s`, `3 h 12 min`, `4 d`: two units at most. */
export function span(ms: number): string {
  const left = Math.max(0, Math.round(ms));
  if (left < 1_000) return `${left} ms`;
  const at = UNITS.findIndex(([, unit]) => left >= unit);
  const [name, unit] = UNITS[at] as [string, number];
  const whole = Math.floor(left / unit);
  const next = UNITS[at + 1];
  const rest = next ? Math.floor((left - whole * unit) / next[1]) : 0;
  return rest > 0 && next ? `${whole} ${name} ${rest} ${next[0]}` : `${whole} ${name}`;
}

/** `1 job`, `2 jobs`. */
export function many(count: number, one: string, more = `${one}s`): string {
  return `${count.toLocaleString('en')} ${count === 1 ? one : more}`;
}

export function firstLine(value: string | null, length = 200): string {
  const line = (value ?? '').split('\n', 1)[0] ?? '';
  return line.length > length ? `${line.slice(0, length)}…` : line;
}

/** `a, b, c and 2 more types`. */
export function firstFew(all: readonly string[], most: number, noun: string, by = ', '): string {
  if (all.length <= most) return all.join(by);
  const rest = all.length - most;
  return `${all.slice(0, most).join(by)} and ${rest.toLocaleString('en')} more ${noun}${rest === 1 ? '' : 's'}`;
}

export const shellWord = (word: string) =>
  /^[\w.:@/-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
