/** When a killed worker will be noticed by its lock: watchers and the server have to be a little older. */
import type { Ground } from './ground.js';
import { until } from './until.js';

/** Watchers say nothing in their first second, nor the server in its first ten. */
export const watchersAreOld = (db: Ground) =>
  until('the watchers are old enough', async () => {
    const rows = await db.rows(
      `SELECT FROM pg_stat_activity WHERE application_name = 'holdfast keeper'
         AND datname = current_database() AND backend_start > now() - interval '2 seconds'
       UNION ALL
       SELECT WHERE pg_postmaster_start_time() > now() - interval '10 seconds'`,
    );
    return rows.length === 0;
  });
