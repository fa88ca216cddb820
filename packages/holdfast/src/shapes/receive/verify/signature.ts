/**
 * What the signatures of all providers have in common: HMAC-SHA256 under one of several secrets, compared in constant time, and a
 * timestamp that is neither too old nor ahead. No message names a secret.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { invalid } from '../../../job/errors/holdfast-error.js';
import { type Duration, durationMs } from '../../../job/options/duration.js';
import { checkKnown } from '../../../job/options/known-options.js';
import { Refused } from '../delivery.js';

/** A secret, or several while it is being rotated. */
export type Secrets = string | readonly string[];

/** Options of a verifier whose provider signs the time. */
export interface ToleranceOptions {
  /** How old, or how far ahead, a timestamp may be. Default 5 minutes, at most a day. */
  readonly tolerance?: Duration;
}

const DAY_MS = 86_400_000;
const MOST_SECRETS = 16;
/** A header may hold as many signatures as its sender likes; so many are compared. */
const MOST_SIGNATURES = 16;

/** The keys of all secrets. `keyOf` returns null for one that cannot be used. */
export function keysOf(
  secrets: Secrets,
  what: string,
  keyOf: (secret: string) => Buffer | null,
  form: string,
): readonly Buffer[] {
  const list: readonly unknown[] = Array.isArray(secrets) ? secrets : [secrets];
  const keys = list.map((one) => (typeof one === 'string' && one !== '' ? keyOf(one) : null));
  const usable = keys.filter((key) => key !== null);
  if (usable.length === keys.length && keys.length >= 1 && keys.length <= MOST_SECRETS)
    return usable;
  throw invalid(
    `${what} takes a secret, or a list of 1 to ${MOST_SECRETS}: ${form}. One of them is missing or has another form. ` +
      'Nothing was made. Is the environment variable set?',
  );
}

/** The bytes of a secret, as they stand. */
export const plainKey = (secret: string): Buffer => Buffer.from(secret, 'utf8');

/** The tolerance of a verifier, in milliseconds. */
export function toleranceOf(options: ToleranceOptions, what: string): number {
  checkKnown(options, { tolerance: true }, what, 'Nothing was made.');
  return durationMs(options.tolerance ?? '5m', `tolerance of ${what}`, { min: 1_000, max: DAY_MS });
}

/** Throws unless the time of signing, in seconds, is close to that of arrival. */
export function checkTime(seconds: string | null, receivedAt: Date, toleranceMs: number): string {
  if (seconds === null || !/^\d{1,12}$/.test(seconds))
    throw new Refused('the timestamp of the signature is missing or malformed', 400);
  const lateMs = receivedAt.getTime() - Number(seconds) * 1_000;
  if (lateMs > toleranceMs) throw new Refused('the timestamp of the signature is too old');
  if (lateMs < -toleranceMs) throw new Refused('the timestamp of the signature is in the future');
  return seconds;
}

/** Throws unless one of the signatures is that of these parts under one of the keys. Each pair is compared, whatever the others say. */
export function checkSignature(
  keys: readonly Buffer[],
  parts: readonly (string | Buffer)[],
  signatures: readonly string[],
  encoding: 'hex' | 'base64',
): void {
  if (signatures.length === 0) throw new Refused('the signature is missing');
  // In its one form: Buffer.from() passes over what is no digit, so that one signature could be written in many ways.
  const given = signatures
    .slice(0, MOST_SIGNATURES)
    .map((one) => ({ one, bytes: Buffer.from(one, encoding) }))
    .flatMap(({ one, bytes }) => (bytes.toString(encoding) === one ? [bytes] : []));
  let good = false;
  for (const key of keys) {
    const hmac = createHmac('sha256', key);
    for (const part of parts) hmac.update(part);
    const wanted = hmac.digest();
    for (const one of given)
      if (one.length === wanted.length && timingSafeEqual(one, wanted)) good = true;
  }
  if (!good) throw new Refused('the signature is wrong');
}

/** The text of a property, if the value is an object that has it. */
export function textIn(value: unknown, name: string): string | null {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return null;
  const found = (value as Record<string, unknown>)[name];
  return typeof found === 'string' && found !== '' ? found : null;
}
