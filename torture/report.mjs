// The counts of a run, and its verdict.
const SHOWN = 15;

const round = (value) => (typeof value === 'number' ? Math.round(value * 10) / 10 : value);

function line(name, value) {
  if (value !== null && typeof value === 'object') {
    const parts = Object.entries(value).map(([key, one]) => `${key} ${round(one)}`);
    return `  ${name}: ${parts.join(', ')}`;
  }
  return `  ${name}: ${round(value)}`;
}

/** @param {{ violations: string[], counts: Record<string, any> }} result */
export function printResult({ violations, counts }) {
  const total = Object.values(counts.faults).reduce((sum, n) => sum + n, 0);
  for (const [name, value] of Object.entries(counts))
    if (name !== 'faults') console.log(line(name, value));
  console.log(line(`${total} faults`, counts.faults));
  console.log(
    violations.length === 0
      ? '  verdict: 0 violations'
      : `  verdict: ${violations.length} VIOLATIONS`,
  );
  for (const text of violations.slice(0, SHOWN)) console.log(`    ${text}`);
  if (violations.length > SHOWN) console.log(`    … and ${violations.length - SHOWN} more`);
}
