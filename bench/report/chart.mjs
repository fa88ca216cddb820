// A bar chart as SVG, without a library: names left, bars, values right.
import { plain } from '../statistics.mjs';

const ROW = 30;
const NAMES = 210;
const BARS = 430;
const TOP = 44;

const escaped = (text) =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

export function barChart({ title, bars }) {
  const most = Math.max(...bars.map(({ value }) => value || 0), 1e-9);
  const height = TOP + bars.length * ROW + 12;
  const rows = bars.map(({ label, value, ours }, at) => {
    const y = TOP + at * ROW;
    const width = Math.max(1, ((value || 0) / most) * BARS);
    return [
      `<text x="${NAMES - 8}" y="${y + 16}" text-anchor="end">${escaped(label)}</text>`,
      `<rect x="${NAMES}" y="${y}" width="${width.toFixed(1)}" height="22" rx="3" fill="${ours ? '#2563eb' : '#94a3b8'}"/>`,
      `<text x="${(NAMES + width + 6).toFixed(1)}" y="${y + 16}">${plain(value)}</text>`,
    ].join('\n');
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 ${height}" font-family="system-ui, sans-serif" font-size="13" role="img" aria-label="${escaped(title)}">
<rect width="760" height="${height}" fill="#ffffff"/>
<g fill="#0f172a">
<text x="12" y="24" font-size="15" font-weight="600">${escaped(title)}</text>
${rows.join('\n')}
</g>
</svg>
`;
}
