/** What people are not to see. If the function of the host fails, or is async, nothing of the value is shown. */

/** What the value belongs to. */
export interface Shown {
  readonly field: 'payload' | 'result' | 'headers' | 'error';
  readonly queue: string;
  readonly type: string;
}

/** Changes what the dashboard shows; returns what to show instead. */
export type Redact = (value: unknown, shown: Shown) => unknown;

const FAILED = '[hidden: redact failed]';

interface Facts {
  readonly type: string;
  readonly lastError?: string | null;
  readonly headers?: unknown;
  readonly history?: readonly { readonly error?: string }[];
  readonly payload?: unknown;
  readonly result?: unknown;
  readonly error?: string | null;
}

/** The page shows an error as a text, whatever was made of it; where there was none there is none. */
function asText(shown: unknown, was: string | null | undefined): string | null | undefined {
  if (was === null || was === undefined || typeof shown === 'string') return shown as typeof was;
  return shown === null || shown === undefined ? '' : (JSON.stringify(shown) ?? String(shown));
}

export class Redactor {
  readonly #redact: Redact | undefined;

  constructor(redact: Redact | undefined) {
    this.#redact = redact;
  }

  /** A job, a line of a list or a group: every part that it has and that may hold a secret. */
  of<Value extends Facts>(value: Value, queue: string): Value {
    if (!this.#redact) return value;
    const { type } = value;
    const see = (part: unknown, field: Shown['field']) =>
      part === null || part === undefined ? part : this.#see(part, { field, queue, type });
    const parts: Record<string, unknown> = {};
    if ('payload' in value) parts.payload = see(value.payload, 'payload');
    if ('result' in value) parts.result = see(value.result, 'result');
    if ('headers' in value) parts.headers = see(value.headers, 'headers');
    for (const name of ['lastError', 'error'] as const)
      if (name in value) parts[name] = asText(see(value[name], 'error'), value[name]);
    if (value.history)
      parts.history = value.history.map((entry) =>
        'error' in entry
          ? { ...entry, error: asText(see(entry.error, 'error'), entry.error) }
          : entry,
      );
    return { ...value, ...parts };
  }

  /** One value by itself. */
  part(value: unknown, shown: Shown): unknown {
    if (!this.#redact || value === null || value === undefined) return value;
    return this.#see(value, shown);
  }

  /** A sentence of ours, which may quote an error. */
  text(value: string, queue: string, type: string): string {
    return this.#redact ? String(this.#see(value, { field: 'error', queue, type })) : value;
  }

  #see(value: unknown, shown: Shown): unknown {
    try {
      const answer = this.#redact?.(value, shown);
      if (!(answer instanceof Promise)) return answer;
      // Nobody waits for it, and a rejection that nobody looks at ends the process.
      answer.catch(() => undefined);
      return FAILED;
    } catch {
      return FAILED;
    }
  }
}
