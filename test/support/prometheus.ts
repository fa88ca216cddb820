/**
 * Reads Prometheus' exposition format 0.0.4 as strictly as the format is described: a scrape that a
 * lenient reader would forgive fails here.
 */
export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface Scrape {
  readonly types: ReadonlyMap<string, string>;
  readonly help: ReadonlyMap<string, string>;
  readonly samples: readonly Sample[];
  /** The value of the series with exactly these labels; undefined if there is none. */
  value(name: string, labels?: Record<string, string>): number | undefined;
}

const NAME = '[a-zA-Z_:][a-zA-Z0-9_:]*';
const META = new RegExp(`^# (HELP|TYPE) (${NAME}) (.+)$`);
const SAMPLE = new RegExp(`^(${NAME})(?:\\{(.*)\\})? (\\S+)$`);
const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)/y;
const NUMBER = /^([+-]?(\d+(\.\d+)?(e[+-]?\d+)?|Inf)|NaN)$/;

function unescaped(text: string): string {
  return text.replace(/\\(.)/g, (_, sign: string) => (sign === 'n' ? '\n' : sign));
}

function readLabels(text: string | undefined, line: string): Record<string, string> {
  const labels: Record<string, string> = {};
  LABEL.lastIndex = 0;
  while (text && LABEL.lastIndex < text.length) {
    const found = LABEL.exec(text);
    if (!found) throw new Error(`labels cannot be read: ${line}`);
    if ((found[1] as string) in labels) throw new Error(`a label twice: ${line}`);
    labels[found[1] as string] = unescaped(found[2] as string);
  }
  return labels;
}

function numberOf(text: string, line: string): number {
  if (!NUMBER.test(text)) throw new Error(`not a number: ${line}`);
  return Number(text.replace('Inf', 'Infinity'));
}

const keyOf = (name: string, labels: Readonly<Record<string, string>>) =>
  `${name}${JSON.stringify(Object.entries(labels).sort())}`;

/** The metric that a sample belongs to: histograms have three kinds of samples. */
function familyOf(name: string, types: ReadonlyMap<string, string>): string {
  const base = name.replace(/_(bucket|sum|count)$/, '');
  return types.get(base) === 'histogram' ? base : name;
}

export function readScrape(text: string): Scrape {
  if (!text.endsWith('\n')) throw new Error('the last line does not end');
  const types = new Map<string, string>();
  const help = new Map<string, string>();
  const values = new Map<string, number>();
  const samples: Sample[] = [];
  const order: string[] = [];
  for (const line of text.slice(0, -1).split('\n')) {
    const meta = META.exec(line);
    if (meta) {
      const [, what, name, rest] = meta as unknown as [string, string, string, string];
      const table = what === 'HELP' ? help : types;
      if (table.has(name)) throw new Error(`twice: ${line}`);
      table.set(name, rest);
      continue;
    }
    const found = SAMPLE.exec(line);
    if (!found) throw new Error(`not a line of the format: ${line}`);
    const labels = readLabels(found[2], line);
    const sample = { name: found[1] as string, labels, value: numberOf(found[3] as string, line) };
    const family = familyOf(sample.name, types);
    if (!types.has(family)) throw new Error(`a sample before its TYPE: ${line}`);
    if (order.at(-1) !== family) order.push(family);
    if (values.has(keyOf(sample.name, labels))) throw new Error(`a series twice: ${line}`);
    values.set(keyOf(sample.name, labels), sample.value);
    samples.push(sample);
  }
  if (new Set(order).size !== order.length) throw new Error('the samples of a metric are apart');
  checkHistograms(types, samples, values);
  const value = (name: string, labels: Record<string, string> = {}) =>
    values.get(keyOf(name, labels));
  return { types, help, samples, value };
}

/** Buckets rise, and the last one is the count. */
function checkHistograms(
  types: ReadonlyMap<string, string>,
  samples: readonly Sample[],
  values: ReadonlyMap<string, number>,
): void {
  const last = new Map<string, number>();
  for (const { name, labels, value } of samples) {
    const base = name.replace(/_bucket$/, '');
    if (base === name || types.get(base) !== 'histogram') continue;
    const { le, ...own } = labels;
    const key = keyOf(base, own);
    if (value < (last.get(key) ?? 0)) throw new Error(`the buckets of ${key} fall`);
    last.set(key, value);
    if (le !== '+Inf') continue;
    const count = values.get(keyOf(`${base}_count`, own));
    if (count !== value) throw new Error(`${key}: ${count} counted, ${value} in the last bucket`);
    if (!values.has(keyOf(`${base}_sum`, own))) throw new Error(`${key} has no sum`);
  }
}
