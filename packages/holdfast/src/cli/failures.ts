/** What a command throws when it did not do what it was asked to, or did a part of it; errors.ts words them. */

/** Wrong usage: the message is all that is printed, with where to find help; exit code 2. */
export class UsageError extends Error {
  /** The words of the command whose help helps, if it was found. */
  readonly words: readonly string[] | null;
  constructor(message: string, words: readonly string[] | null = null) {
    super(message);
    this.words = words;
  }
}

/** Something was not done, and the message says what and why; exit code 1. */
export class Failure extends Error {}

/** It went wrong after a part was committed: the error, and what to say in place of "Nothing was done". */
export class Partly extends Error {
  readonly done: string;
  constructor(cause: unknown, done: string) {
    super(done, { cause });
    this.done = done;
  }
}

/** Ctrl-C where nothing was done yet; exit code 130. */
export class Interrupted extends Error {}
