/** Maintenance by heartbeats, where no worker in TypeScript does it. */
import { SUSPECTS_LOCK } from '../../../claim/suspects.js';
import { PAGES_A_ROUND, QUIET_MS } from '../../../maintenance/recover.js';
import { MAX_ROWS } from '../../../postgres/statement.js';
import type { FunctionFile } from '../../function-file.js';
import { SPACE } from './registry.sql.js';
import { verbName } from './verbatim.js';

export const maintain: FunctionFile = {
  name: 'protocol-maintain',
  of: 'queue',
  text: `
-- A round of maintenance, if nobody has done one lately: silent workers are declared dead, what they held goes back, and so
-- do jobs whose lease ran out. A worker in TypeScript comes more often, and then this does nothing.
CREATE OR REPLACE FUNCTION holdfast.inbox_worker_maintain(the_worker text, the_ttl_ms integer, may_sweep boolean) RETURNS void
  LANGUAGE plpgsql AS $fn$
DECLARE
  pages record;
  back  record;
BEGIN
  -- What waits, where a queue has a limit. It is counted about once a second in the whole fleet.
  PERFORM holdfast.inbox_count_waiting();
  IF EXISTS (SELECT FROM holdfast.queues AS q WHERE q.name = 'inbox' AND (q.maintained_at > clock_timestamp() - interval '25 seconds'
      OR (q.serviced_at ->> 'protocol')::timestamptz > clock_timestamp() - least(10000, the_ttl_ms / 3) * interval '1 millisecond'))
    OR NOT pg_try_advisory_xact_lock(${SUSPECTS_LOCK + 1}, 'holdfast.inbox'::regclass::oid::integer) THEN
    RETURN;
  END IF;
  UPDATE holdfast.queues AS q SET serviced_at = q.serviced_at || jsonb_build_object('protocol', clock_timestamp()) WHERE q.name = 'inbox';
  IF may_sweep THEN
    PERFORM holdfast.${verbName('sweep_workers')}(the_ttl_ms, the_worker);
  END IF;
  SELECT p.page, p.page_after INTO pages FROM holdfast.${verbName('take_pages')}(${PAGES_A_ROUND}) AS p;
  SELECT min(r.run_at) FILTER (WHERE r.status = 'pending') AS since INTO back
  FROM holdfast.${verbName('recover')}(${MAX_ROWS}, the_worker, ${SPACE}, format('(%s,0)', pages.page), format('(%s,0)', pages.page_after),
    '{}') AS r;
  IF back.since IS NOT NULL THEN
    PERFORM holdfast.${verbName('notify_queue')}(back.since::text, '*', 'holdfast.notify');
  END IF;
  PERFORM holdfast.${verbName('clear_blameless')}(${MAX_ROWS}, ${QUIET_MS});
  PERFORM holdfast.${verbName('forget_claims')}();
  PERFORM holdfast.${verbName('forget_workers')}();
  -- Whole segments of the archive that are past the retention.
  PERFORM holdfast.inbox_prune_archive();
END
$fn$;
`,
};
