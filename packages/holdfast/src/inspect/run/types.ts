/** Which types of a queue are workflows: a row does not say so before it has taken its first step. */
import { text } from '../../postgres/statement.js';
import { asks } from '../reading/asks.js';

/** Those that a worker of the registry has a body for, also one that died in the last week. */
export const workflowTypes = asks({
  name: 'workflow_types',
  text: `
SELECT DISTINCT t.type
FROM (
  SELECT w.workflows FROM holdfast.workers AS w WHERE w.workflows IS NOT NULL
  ORDER BY w.status = 'dead', w.last_seen_at DESC LIMIT 1000
) AS w
CROSS JOIN LATERAL jsonb_object_keys(w.workflows -> 'inbox') AS t(type)
ORDER BY t.type`,
  columns: { type: text },
});
