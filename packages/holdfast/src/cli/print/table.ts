/**
 * Tables for people: aligned columns, and on a terminal cut to its width at the last column. Where even
 * the others are too wide, they stand closer together.
 */
import type { Style } from './style.js';

export interface TableColumn<Row> {
  readonly title: string;
  readonly of: (row: Row) => string | number | null;
  readonly align?: 'right';
  readonly style?: (row: Row) => Style | null;
}

export interface TableOptions {
  readonly width: number;
  readonly paint: (text: string, style: Style) => string;
}

const GAPS = ['  ', ' '] as const;
const LAST = 8;

/** Without anything that a terminal would obey, on one line. */
export function plain(text: string): string {
  return text.replace(/\s+/g, ' ').replace(/[\p{Cc}\p{Cf}\p{Cs}]/gu, '·');
}

const shown = (value: string | number | null) =>
  value === null
    ? '-'
    : typeof value === 'number'
      ? value.toLocaleString('en')
      : plain(value) || '-';

export function table<Row>(
  rows: readonly Row[],
  columns: readonly TableColumn<Row>[],
  { width, paint }: TableOptions,
): string[] {
  const cells = rows.map((row) => columns.map((column) => shown(column.of(row))));
  const widths = columns.map((column, n) =>
    Math.max(column.title.length, ...cells.map((row) => (row[n] as string).length)),
  );
  const others = widths.slice(0, -1).reduce((sum, one) => sum + one, 0);
  const between = (gap: string) => others + gap.length * (columns.length - 1);
  const least = Math.min(LAST, widths.at(-1) ?? 0);
  const gap = GAPS.find((one) => between(one) + least <= width) ?? ' ';
  const lastWidth = Math.max(LAST, width - between(gap));
  const cell = (text: string, n: number) => {
    const column = columns[n] as TableColumn<Row>;
    const room = widths[n] as number;
    if (column.align === 'right') return text.padStart(room);
    if (n < columns.length - 1) return text.padEnd(room);
    return text.length > lastWidth ? `${text.slice(0, lastWidth - 1)}…` : text;
  };
  const head = columns.map((column, n) => cell(column.title, n)).join(gap);
  const body = cells.map((row, r) =>
    row
      .map((text, n) => {
        const style = columns[n]?.style?.(rows[r] as Row) ?? null;
        return style ? paint(cell(text, n), style) : cell(text, n);
      })
      .join(gap)
      .trimEnd(),
  );
  return [paint(head.trimEnd(), 'bold'), ...body];
}
