/**
 * What becomes of every field of a source. Each source has a table of its fields: where a value goes, and what is said
 * of the jobs that lose it. A field that no table names is said too, so that a newer version drops nothing in silence.
 */
export interface Field {
  /** Where its value goes. */
  readonly to?: string;
  /** Said of a job that has a value which does not arrive. */
  readonly lost?: string;
  /** Whether this value is lost; without it, every value that says something. */
  readonly when?: (value: unknown, row: Values) => boolean;
  /** Why nothing is lost though it goes nowhere. */
  readonly moot?: string;
}

export type Fields = Readonly<Record<string, Field>>;
export type Values = Readonly<Record<string, unknown>>;

/** Null, '', 0 and false say nothing: they are what a field holds when nobody set it. */
export const isSet = (value: unknown): boolean =>
  value !== null && value !== undefined && value !== '' && value !== 0 && value !== false;

/** `prefix` is put before fields that are unknown: `opts.` of BullMQ. */
export function lossesOf(fields: Fields, row: Values, prefix = ''): string[] {
  const losses: string[] = [];
  for (const name of Object.keys(row)) {
    const value = row[name];
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (field === undefined) {
      if (isSet(value))
        losses.push(`"${prefix}${name}" is not moved: this Holdfast does not know the field`);
    } else if (field.lost !== undefined) {
      const lost = field.when ? field.when(value, row) : isSet(value);
      if (lost && !losses.includes(field.lost)) losses.push(field.lost);
    }
  }
  return losses;
}

/** What several sources lose. */
export const LOST = {
  created: 'when it was made is not moved: here that is the time of the import',
  times: 'when it ran before is not moved',
  retry: 'the delay between attempts is not moved: set `retry` in the definition',
  timeout: 'the time limit is not moved: set `timeout` in the definition',
  priority: 'the exact priority is not moved: there are four levels here',
};

/** Above 1 and below -1 several priorities become one. */
export const isFine = (priority: unknown): boolean => Math.abs(Number(priority)) > 1;

/** The headers of a trace context in the form of W3C. */
export function traceHeaders(context: unknown): Record<string, string> | null {
  const { traceparent, tracestate } = (context ?? {}) as Values;
  if (typeof traceparent !== 'string' || traceparent === '') return null;
  return {
    traceparent,
    ...(typeof tracestate === 'string' && tracestate !== '' && { tracestate }),
  };
}

export const LOST_TRACE = 'of its trace context only traceparent and tracestate are moved';

export const hasOtherTrace = (context: unknown): boolean =>
  isSet(context) &&
  (traceHeaders(context) === null ||
    Object.entries(context as Values).some(
      ([name, value]) => !['traceparent', 'tracestate'].includes(name) && isSet(value),
    ));
