/**
 * A small registry of counters, gauges and histograms, in the data model of Prometheus. A family is one metric; a cell is
 * one of its series, found by the values of its labels. The number of cells is bounded: after `MAX_CELLS` a new value of
 * the last label counts as "other", and later everything new goes to one cell. So a producer that makes up job types
 * cannot fill the memory of a worker, nor that of the Prometheus that reads it.
 */
export type MetricKind = 'counter' | 'gauge' | 'histogram';

/** A metric: its name, kind, help and labels. */
export interface MetricDefinition {
  readonly name: string;
  readonly kind: MetricKind;
  readonly help: string;
  readonly labels: readonly string[];
  /** Upper bounds of a histogram's buckets, rising; the last one, infinity, is implied. */
  readonly buckets?: readonly number[];
}

export const OTHER = 'other';
export const MAX_CELLS = 100;

export class NumberCell {
  value = 0;

  add(by = 1): void {
    this.value += by;
  }

  set(value: number): void {
    this.value = value;
  }
}

export class HistogramCell {
  readonly bounds: readonly number[];
  /** By bucket, not cumulative; one more than there are bounds. */
  readonly counts: number[];
  sum = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = new Array(bounds.length + 1).fill(0);
  }

  observe(value: number): void {
    // Two clocks may disagree by a little; nothing has ever taken less than no time.
    const seen = Math.max(value, 0);
    let bucket = 0;
    while (bucket < this.bounds.length && seen > (this.bounds[bucket] as number)) bucket++;
    this.counts[bucket] = (this.counts[bucket] as number) + 1;
    this.sum += seen;
  }
}

export interface Series<Cell> {
  readonly values: readonly string[];
  readonly cell: Cell;
}

export class Family<Cell extends NumberCell | HistogramCell = NumberCell | HistogramCell> {
  readonly definition: MetricDefinition;
  readonly #make: (values: readonly string[]) => Cell;
  readonly #series = new Map<string, Series<Cell>>();

  constructor(definition: MetricDefinition, make: (values: readonly string[]) => Cell) {
    this.definition = definition;
    this.#make = make;
  }

  /** The cell of these label values, in the order of the definition's labels. */
  at(...values: string[]): Cell {
    const found = this.#series.get(values.join('\0'));
    if (found) return found.cell;
    const folded = this.#fold(values);
    const key = folded.join('\0');
    const series = this.#series.get(key) ?? { values: folded, cell: this.#make(folded) };
    this.#series.set(key, series);
    return series.cell;
  }

  series(): Iterable<Series<Cell>> {
    return this.#series.values();
  }

  /** For gauges that are read anew: what is no longer there must not be shown as it last was. */
  clear(): void {
    this.#series.clear();
  }

  #fold(values: string[]): string[] {
    if (this.#series.size < MAX_CELLS || values.length === 0) return values;
    if (this.#series.size < 2 * MAX_CELLS) return [...values.slice(0, -1), OTHER];
    return values.map(() => OTHER);
  }
}

export function labelsOf({ labels }: MetricDefinition, values: readonly string[]) {
  return Object.fromEntries(labels.map((label, index) => [label, values[index] ?? '']));
}

type CellOf<Definition> = Definition extends { readonly kind: 'histogram' }
  ? HistogramCell
  : NumberCell;

export type Families<Definitions> = {
  readonly [Name in keyof Definitions]: Family<CellOf<Definitions[Name]>>;
};

export class Registry {
  readonly #families: Family[] = [];
  readonly #histogram: (definition: MetricDefinition, values: readonly string[]) => HistogramCell;

  /** `histogram` makes the cell of a histogram, by its definition and the values of its labels. */
  constructor(
    histogram: (definition: MetricDefinition, values: readonly string[]) => HistogramCell = ({
      buckets = [],
    }) => new HistogramCell(buckets),
  ) {
    this.#histogram = histogram;
  }

  add<Definition extends MetricDefinition>(definition: Definition): Family<CellOf<Definition>> {
    const family: Family = new Family(definition, (values) =>
      definition.kind === 'histogram' ? this.#histogram(definition, values) : new NumberCell(),
    );
    this.#families.push(family);
    return family as unknown as Family<CellOf<Definition>>;
  }

  all<Definitions extends Readonly<Record<string, MetricDefinition>>>(definitions: Definitions) {
    const added = Object.entries(definitions).map(([name, one]) => [name, this.add(one)]);
    return Object.fromEntries(added) as Families<Definitions>;
  }

  families(): readonly Family[] {
    return this.#families;
  }
}
