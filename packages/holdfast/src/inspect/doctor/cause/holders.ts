/** Who has the connections: asked when few are left. */
import { int4, text } from '../../../postgres/statement.js';
import { type Answer, asks } from '../../reading/asks.js';

export const readHolders = asks({
  name: 'doctor_connections',
  text: `
SELECT coalesce(nullif(a.application_name, ''), 'no name') AS application, a.usename::text AS role,
  coalesce(a.state, 'state unknown') AS state, count(*)::integer AS connections
FROM pg_stat_activity AS a
WHERE a.backend_type = 'client backend' OR (a.backend_type IS NULL AND a.datid IS NOT NULL)
GROUP BY 1, 2, 3
ORDER BY count(*) DESC, 1, 2, 3
LIMIT 100`,
  columns: { application: text, role: text.orNull, state: text, connections: int4 },
});

export type Holder = Answer<typeof readHolders>;

const NAMED = 5;

/** ` 80 by "shop-web" (user shop, idle), …`; '' where it was not asked. */
export function heldBy(holders: readonly Holder[]): string {
  if (holders.length === 0) return '';
  const named = holders
    .slice(0, NAMED)
    .map((one) => `${one.connections} by "${one.application}" (user ${one.role}, ${one.state})`);
  const rest = holders.slice(NAMED).reduce((sum, { connections }) => sum + connections, 0);
  return ` Held: ${named.join('; ')}${rest > 0 ? `; ${rest} by others` : ''}.`;
}
