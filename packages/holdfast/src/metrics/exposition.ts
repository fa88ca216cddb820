/** The registry as text: Prometheus' exposition format, version 0.0.4. */
import { type Family, HistogramCell, type Registry } from './registry.js';

export const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

export function exposition(registry: Registry): string {
  return registry.families().map(familyText).join('');
}

function familyText(family: Family): string {
  const { name, kind, help, labels } = family.definition;
  let lines = '';
  for (const { values, cell } of family.series()) {
    if (cell instanceof HistogramCell) lines += histogramText(name, labels, values, cell);
    else lines += `${name}${labelText(labels, values)} ${numberText(cell.value)}\n`;
  }
  // A family without series says nothing yet.
  if (lines === '') return '';
  return `# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${kind}\n${lines}`;
}

function histogramText(
  name: string,
  labels: readonly string[],
  values: readonly string[],
  cell: HistogramCell,
): string {
  let lines = '';
  let cumulative = 0;
  for (const [index, count] of cell.counts.entries()) {
    cumulative += count;
    const bound = cell.bounds[index] ?? Number.POSITIVE_INFINITY;
    const text = labelText([...labels, 'le'], [...values, numberText(bound)]);
    lines += `${name}_bucket${text} ${cumulative}\n`;
  }
  const own = labelText(labels, values);
  return `${lines}${name}_sum${own} ${numberText(cell.sum)}\n${name}_count${own} ${cumulative}\n`;
}

function labelText(labels: readonly string[], values: readonly string[]): string {
  if (labels.length === 0) return '';
  const pairs = labels.map((label, index) => `${label}="${escapeValue(values[index] ?? '')}"`);
  return `{${pairs.join(',')}}`;
}

function numberText(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return '+Inf';
  if (value === Number.NEGATIVE_INFINITY) return '-Inf';
  return String(value);
}

const escapeHelp = (text: string) => text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
const escapeValue = (text: string) => escapeHelp(text).replaceAll('"', '\\"');
