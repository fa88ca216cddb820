// Small statistics for noisy machines: medians, percentiles, and how they are printed.
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** The median of what each pair says: neighbours in time meet the same moods of the machine. */
export const pairwise = (values, base) => median(values.map((value, n) => value / base[n]));

/** The smallest value that at least this part of the values does not exceed. */
export function percentile(values, part) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.min(sorted.length - 1, Math.ceil(sorted.length * part) - 1))];
}

/** `12,345`: whole numbers above a hundred, fewer digits below. */
export function plain(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en');
  if (Math.abs(value) < 0.1) return value.toLocaleString('en', { maximumSignificantDigits: 2 });
  return value.toLocaleString('en', { maximumFractionDigits: Math.abs(value) >= 10 ? 1 : 2 });
}

/** The median with the smallest and the largest value: `12,345 (11,900–12,800)`. */
export function measured(values) {
  if (values.length === 0) return '–';
  if (values.length === 1) return plain(values[0]);
  return `${plain(median(values))} (${plain(Math.min(...values))}–${plain(Math.max(...values))})`;
}
