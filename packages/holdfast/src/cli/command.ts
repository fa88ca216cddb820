/**
 * What a command is: data for the parser and the help, and a function that is loaded when it is called. Data goes to
 * stdout, everything else to stderr.
 */
import type { Output } from './print/output.js';
import type { Session } from './session.js';

export const EXIT = { ok: 0, failed: 1, usage: 2, unhealthy: 3, interrupted: 130 } as const;

export interface Option {
  readonly type: 'string' | 'boolean';
  readonly short?: string;
  /** It may be given several times. */
  readonly multiple?: boolean;
  /** How the help calls its value. */
  readonly value?: string;
  readonly help: string;
}

export type Options = Readonly<Record<string, Option>>;

export const flag = (help: string): Option => ({ type: 'boolean', help });
export const text = (value: string, help: string): Option => ({ type: 'string', value, help });
export const texts = (value: string, help: string): Option => ({
  ...text(value, help),
  multiple: true,
});

/** The options as they were given: texts, `true`, or lists of texts. */
export class Given {
  readonly #values: Readonly<Record<string, unknown>>;
  constructor(values: Readonly<Record<string, unknown>>) {
    this.#values = values;
  }
  flag(name: string): boolean {
    return this.#values[name] === true;
  }
  text(name: string): string | undefined {
    const value = this.#values[name];
    return typeof value === 'string' ? value : undefined;
  }
  texts(name: string): readonly string[] | undefined {
    const value = this.#values[name];
    return Array.isArray(value) ? (value as string[]) : undefined;
  }
}

export interface Call {
  readonly args: readonly string[];
  readonly given: Given;
  readonly out: Output;
  /** Aborted by the first Ctrl-C. */
  readonly signal: AbortSignal;
  /** The database, for commands that need one. */
  readonly session: Session;
}

export interface Command {
  /** `jobs ls` is ['jobs', 'ls']. */
  readonly words: readonly string[];
  /** How the help writes its arguments. */
  readonly args?: string;
  readonly summary: string;
  readonly detail?: string;
  readonly options?: Options;
  /** `schema`: it needs a database that is migrated. */
  readonly needs: 'nothing' | 'database' | 'schema';
  /** Ctrl-C ends most commands at once; one that acts in steps ends after its step, or by its own rules. */
  readonly onInterrupt?: 'quit' | 'finish' | 'own';
  /** The function; a number that it returns is the exit code. */
  readonly load: () => Promise<(call: Call) => Promise<unknown>>;
}

type Described = Partial<Command> & Pick<Command, 'load'>;

/** `usage` is its words, then how the help writes its arguments. It needs the schema unless it says otherwise. */
export function command(usage: string, summary: string, more: Described): Command {
  const [, name = '', args] = /^([a-z-]+(?: [a-z-]+)?)(?: (.+))?$/.exec(usage) ?? [];
  return { words: name.split(' '), ...(args && { args }), summary, needs: 'schema', ...more };
}

export const nameOf = (command: Command) => command.words.join(' ');
