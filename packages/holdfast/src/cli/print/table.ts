/**
 * Text for a terminal. Tables have aligned columns, and are cut to the terminal's width at the last column. Where even the
 * others are too wide, they stand closer together.
 */

/** Codes that terminals understand, by what they are used for. */
export const STYLES = { bold: '1', dim: '2', bad: '31', good: '32', worry: '33' } as const;
export type Style = keyof typeof STYLES;

export interface TableColumn<Row> {
  readonly title: string;
  readonly of: (row: Row) => string | number | null;
  readonly align?: 'right';
  readonly style?: (row: Row) => Style | null;
}

/** A column of figures. */
export const right = <Row>(
  title: string,
  of: TableColumn<Row>['of'],
  style?: (row: Row) => Style | null,
): TableColumn<Row> => ({ title, of, align: 'right', ...(style && { style }) });

const GAPS = ['  ', ' '] as const;
const LAST = 8;

/** Without anything that a terminal would obey, on one line. */
export const plain = (text: string) =>
  text.replace(/\s+/g, ' ').replace(/[\p{Cc}\p{Cf}\p{Cs}]/gu, '·');

/** Commands that are printed to be typed: for another schema than the default they name it. */
const COMMAND =
  /\bholdfast (?=(?:migrate|work|jobs|dead-letters|explain|queues|workers|workflows|archive|audit|limits|schedules)\b)/g;

export const pasteable = (text: string, schema: string) =>
  schema === 'holdfast' ? text : text.replace(COMMAND, `holdfast --schema ${schema} `);

const shown = (value: string | number | null) =>
  value === null
    ? '-'
    : typeof value === 'number'
      ? value.toLocaleString('en')
      : plain(value) || '-';

export function table<Row>(
  rows: readonly Row[],
  columns: readonly TableColumn<Row>[],
  width: number,
  paint: (text: string, style: Style) => string,
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
