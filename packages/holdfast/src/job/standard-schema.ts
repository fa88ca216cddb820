/**
 * Standard Schema, version 1: the interface that zod, valibot, arktype and others share. Types only, so
 * that any validator fits and none is a dependency.
 */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** The issues as one line, without the values: a payload never goes into an error or a log. */
export function describeIssues(issues: readonly SchemaIssue[], payload: unknown): string {
  const shown = issues.slice(0, 5).map((issue) => {
    const path = (issue.path ?? []).map((part) => (typeof part === 'object' ? part.key : part));
    const message = withoutValue(issue.message, valueAt(payload, path));
    return path.length > 0 ? `${path.map(String).join('.')}: ${message}` : message;
  });
  if (issues.length > 5) shown.push(`and ${issues.length - 5} more`);
  return shown.join('; ');
}

function valueAt(payload: unknown, path: readonly PropertyKey[]): unknown {
  let value = payload;
  for (const key of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = (value as Record<PropertyKey, unknown>)[key];
  }
  return value;
}

/** Some validators quote what they received; what is too short to be a secret may stay. */
function withoutValue(message: string, value: unknown): string {
  if (typeof value !== 'string' && typeof value !== 'number') return message;
  const texts = [JSON.stringify(value), String(value)].filter((text) => text.length >= 3);
  return texts.reduce((rest, text) => rest.replaceAll(text, '…'), message);
}
