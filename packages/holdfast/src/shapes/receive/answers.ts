/**
 * What a sender is told. An event that can never be taken gets 4xx with the reason; everything that may pass gets 503 and
 * comes again. No answer and no line of the log holds a secret, a payload or a value of one.
 */
import { HoldfastError } from '../../job/errors/errors.js';
import { describeError } from '../../job/errors/failure.js';
import { isTransient } from '../../postgres/connect/transient.js';
import type { Logger } from '../../postgres/log/log.js';
import { Refused } from './delivery.js';

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** A function of the program threw, in a transaction or before it. */
export class ProgramFailed extends Error {}

/** A verifier of the program said no, or threw: anything, so only the kind of the error is logged. */
export class Unverified extends Refused {
  readonly facts: object;
  constructor(thrown: unknown) {
    super('the webhook could not be verified');
    this.facts = thrown === null ? {} : { error: describeError(thrown).name };
  }
}

const RETRY_AFTER_S = 5;
/** Anybody may send what is refused: one line in this time for each reason. */
const QUIET_MS = 60_000;
const MOST_REASONS = 100;

const TEXT = { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' };

/** Nothing: Slack shows the text of an answer to its user. */
export const accepted = (text = ''): Answer => ({
  status: 200,
  headers: text === '' ? {} : TEXT,
  body: text,
});

export const wrongMethod: Answer = {
  status: 405,
  headers: { ...TEXT, allow: 'POST' },
  body: 'Use POST.\n',
};

/** The body broke off; whoever is still there gets this. */
export const cutOff: Answer = { status: 400, headers: TEXT, body: 'the body ended too early\n' };

function refusal(status: number, reason: string): Answer {
  const again = status === 503 && { 'retry-after': String(RETRY_AFTER_S) };
  return { status, headers: { ...TEXT, ...again }, body: `${reason}\n` };
}

/** What can never be written, and why. */
const NEVER: Readonly<Record<string, readonly [status: number, reason: string]>> = {
  PAYLOAD_INVALID: [400, 'the event does not fit the schema of its job'],
  PAYLOAD_NOT_JSON: [400, 'the event holds something that cannot be stored'],
  PAYLOAD_TOO_LARGE: [413, 'the event is too large to be stored'],
  KEY_INVALID: [400, 'the id of the event, or its key, cannot be stored'],
};

export class Answers {
  readonly #log: Logger;
  readonly #type: string;
  readonly #lines = new Map<string, { at: number; more: number }>();

  constructor(log: Logger, type: string) {
    this.#log = log;
    this.#type = type;
  }

  /** Of what was thrown on the way from the request to the commit. */
  of(error: unknown): Answer {
    if (error instanceof Refused) {
      const facts = error instanceof Unverified ? error.facts : {};
      this.#say(error.status < 500 ? 'warn' : 'error', error.status, error.message, facts);
      return refusal(error.status, error.message);
    }
    const code = error instanceof HoldfastError ? error.code : '';
    const never = NEVER[code];
    if (never) {
      // The message of this one names paths and never values.
      const why = code === 'PAYLOAD_INVALID' && { err: describeError(error).message };
      this.#say('warn', never[0], never[1], { code, ...why });
      return refusal(...never);
    }
    const failed = error instanceof ProgramFailed ? error.cause : error;
    const facts = { code: describeError(failed).code, err: describeError(failed).message };
    if (failed === error || isTransient(failed)) {
      this.#say('error', 503, 'the event could not be written', facts);
      return refusal(503, 'the event could not be written now; send it again');
    }
    this.#say('error', 500, error instanceof Error ? error.message : 'failed', facts);
    return refusal(500, 'the event could not be accepted; send it again');
  }

  /** The same reason again within a minute is counted, and told with the next line. */
  #say(level: 'warn' | 'error', status: number, reason: string, more: object): void {
    const now = performance.now();
    const last = this.#lines.get(reason);
    if (last && now - last.at < QUIET_MS) {
      last.more++;
      return;
    }
    // A verifier may word its reasons as it likes.
    if (this.#lines.size > MOST_REASONS) this.#lines.clear();
    this.#lines.set(reason, { at: now, more: 0 });
    const type = this.#type;
    const others = last && last.more > 0 ? { alsoBefore: last.more } : null;
    const log = this.#log;
    if (level === 'warn')
      log.warn({ type, status, reason, ...more, ...others }, 'a webhook was refused');
    else log.error({ type, status, reason, ...more, ...others }, 'a webhook could not be taken');
  }
}
