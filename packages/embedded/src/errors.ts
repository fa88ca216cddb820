/**
 * The one error of this package. Its message says what is wrong, what was not done, and the fix; its code is for
 * programs. What PostgreSQL itself says to a client is never wrapped in it.
 */
import { brand } from 'holdfast/internal';

/** What is wrong: docs/embedded.md explains each code. */
export type EmbeddedErrorCode =
  | 'unsupported_platform'
  | 'binaries_missing'
  | 'invalid_option'
  | 'foreign_folder'
  | 'other_version'
  | 'wrong_owner'
  | 'unreachable_folder'
  | 'unsafe_folder'
  | 'state_unreadable'
  | 'busy'
  | 'start_failed'
  | 'stop_failed'
  | 'adopted'
  | 'stopped';

/** Why the server did not start, or did not stop. */
export class EmbeddedPostgresError extends Error {
  static {
    brand(EmbeddedPostgresError, 'EmbeddedPostgresError');
  }

  /** What is wrong, to branch on. */
  readonly code: EmbeddedErrorCode;

  constructor(code: EmbeddedErrorCode, message: string, cause?: unknown) {
    super(message, { cause });
    this.code = code;
  }
}

/** The code of a system or PostgreSQL error (`ENOENT`, `57P03`), or undefined if it has none. */
export function codeOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}
