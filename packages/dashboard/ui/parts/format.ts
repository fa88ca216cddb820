/** Numbers and times as people read them. */
export const count = (value: number) => value.toLocaleString('en');

export function rate(value: number): string {
  if (value >= 100) return Math.round(value).toLocaleString('en');
  return value >= 10 ? value.toFixed(0) : value.toFixed(1);
}

const UNITS: readonly [string, number][] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
];

export function span(ms: number): string {
  const left = Math.max(0, Math.round(ms));
  if (left < 1_000) return `${left} ms`;
  const at = UNITS.findIndex(([, unit]) => left >= unit);
  const [name, unit] = UNITS[at] as [string, number];
  const next = UNITS[at + 1];
  const whole = Math.floor(left / unit);
  const rest = next ? Math.floor((left - whole * unit) / next[1]) : 0;
  return rest > 0 && next && whole < 10
    ? `${whole} ${name} ${rest} ${next[0]}`
    : `${whole} ${name}`;
}

export function bytes(value: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let [left, at] = [value, 0];
  while (left >= 1024 && at < units.length - 1) {
    left /= 1024;
    at += 1;
  }
  return `${left >= 10 || at === 0 ? Math.round(left) : left.toFixed(1)} ${units[at]}`;
}

export const firstLine = (text: string | null) => (text ?? '').split('\n', 1)[0] ?? '';

export const pretty = (value: unknown) => JSON.stringify(value, null, 2) ?? 'null';

export const stateText = (status: string) => status.replace('_', ' ');

const TYPED: readonly [string, number][] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
  ['ms', 1],
];

/** As it is typed: `1m`. */
export function duration(ms: number): string {
  const [unit, size] = TYPED.find(([, one]) => ms % one === 0) as [string, number];
  return `${ms / size}${unit}`;
}
