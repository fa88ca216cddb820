/**
 * Why a scrape lacks figures, in a word that can be a label. It tells a database that is away from one that answers
 * but lets nobody read a table.
 */
import { isOutage } from '../postgres/connect/transient.js';

/** By code of Holdfast or of Postgres. */
const NAMES: Readonly<Record<string, string>> = {
  LOCKED: 'locked',
  '55P03': 'locked',
  '57014': 'timeout',
  '42501': 'permission_denied',
  '42P01': 'schema_missing',
  '3F000': 'schema_missing',
  '42703': 'schema_too_old',
  '53300': 'too_many_connections',
  '28P01': 'login_refused',
  '28000': 'login_refused',
};

export interface ScrapeError {
  readonly name: string;
  /** The database answered, though not with figures. */
  readonly up: boolean;
}

export function scrapeError(error: unknown): ScrapeError {
  const code = (error as { code?: unknown } | null)?.code;
  const known = typeof code === 'string' ? NAMES[code] : undefined;
  // Who is not let in cannot say that the database works for others.
  const away = isOutage(error) || known === 'login_refused';
  if (known) return { name: known, up: !away };
  if (away) return { name: 'unreachable', up: false };
  // A class of errors has few members; a code of Postgres is short and says more than "other".
  if (typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code)) return { name: code, up: true };
  return { name: 'other', up: false };
}

export const NO_ANSWER: ScrapeError = { name: 'no_answer', up: false };
