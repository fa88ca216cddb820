/** What time it is by the only clock that counts. */
import type { Executor } from '../../postgres/queryable.js';
import { statement } from '../../postgres/statement.js';
import { moment } from './columns.js';

export const askClock = statement({
  name: 'clock',
  text: 'SELECT clock_timestamp() AS now',
  columns: { now: moment },
});

/** The database's time, in milliseconds since 1970. */
export async function databaseNow(db: Executor, schema: string): Promise<number> {
  const [row] = await db.run(askClock, { schema, queue: 'inbox' }, []);
  return Date.parse(row?.now as string);
}
