/**
 * The class of an error in one word, for `error.type`: its code (`LEASE_LOST`, `23505`, `ECONNREFUSED`)
 * or its class. Never its message, which may quote whatever the handler was working on.
 */
import { describeError } from '../job/errors/failure.js';

const WORD = /^[A-Za-z0-9_.:-]{1,64}$/;

export function errorType(error: unknown): string {
  const { code, name } = describeError(error);
  if (code !== null && WORD.test(code)) return code;
  return WORD.test(name) ? name : '_OTHER';
}
