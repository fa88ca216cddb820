/**
 * Who connects where nobody says: libpq takes the user of the system, `pg` the variable USER, which containers and cron
 * leave unset. A user id without a name has none here either, and the server says so.
 */
import { userInfo } from 'node:os';
import pg from 'pg';

/** The config with the user of the system, if neither it nor the environment names one. */
export function withUser<Config extends pg.ClientConfig>(config: Config): Config {
  if (process.env.PGUSER || pg.defaults.user) return config;
  const { connectionString, user: given } = config;
  // Read as the connection will. A client that is not connected opens nothing.
  const read = new pg.Client({
    ...(connectionString && { connectionString }),
    ...(given && { user: given }),
  });
  if (read.user) return config;
  const user = systemUser();
  if (!user) return config;
  // In a URL an absent user counts as an empty one, and wins over the other parts. The path of a socket has none.
  if (!connectionString || connectionString.startsWith('/')) return { ...config, user };
  const mark = connectionString.includes('?') ? '&' : '?';
  return {
    ...config,
    connectionString: `${connectionString}${mark}user=${encodeURIComponent(user)}`,
  };
}

function systemUser(): string | null {
  try {
    return userInfo().username;
  } catch {
    return null;
  }
}
