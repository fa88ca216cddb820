/**
 * What a command is, and how it ends. Data goes to stdout, everything else to stderr. Exit codes: 0 ok,
 * 1 failed, 2 wrong usage.
 */
import type { Holdfast } from '../holdfast.js';

export const EXIT = { ok: 0, failed: 1, usage: 2 } as const;

export interface CommandContext {
  readonly hf: Holdfast;
  readonly args: readonly string[];
  readonly flags: Readonly<Record<string, boolean>>;
  print(line: string): void;
  note(line: string): void;
}

export interface Command {
  readonly usage: string;
  readonly summary: string;
  /** Flags of this command, without the dashes. */
  readonly flags: readonly string[];
  readonly run: (context: CommandContext) => Promise<void>;
}

export class UsageError extends Error {}
