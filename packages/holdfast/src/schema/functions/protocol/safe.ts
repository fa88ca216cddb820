/**
 * How the functions run that a worker in another language calls: with the rights of the owner, so that it needs no others,
 * with names that nobody can turn elsewhere, and with the plans of the engine (postgres/settings.ts).
 */
import { ENGINE_SETTINGS } from '../../../postgres/settings.js';

/** What only a whole session can be told, or the caller's transaction. */
const OF_SESSIONS = /timeout|isolation|datestyle|timezone/;

export const SAFE = [
  'LANGUAGE plpgsql SECURITY DEFINER',
  'SET search_path = pg_catalog, pg_temp',
  ...Object.entries(ENGINE_SETTINGS)
    .filter(([name]) => !OF_SESSIONS.test(name))
    .map(([name, value]) => `SET ${name} = ${value}`),
].join(' ');
