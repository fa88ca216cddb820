/** What the two claims of a queue that is read by time have in common: which rows they take, and how. */
import { EXPIRED, RETURN_TAKEN, TAKE } from '../take.js';

/** Nobody has it, or its owner has vanished; and its key is not paused. */
export const READY = `(i.status = 'pending' OR ${EXPIRED})
        AND (i.partition_key = ANY ((SELECT o.paused_keys FROM open_queue AS o)::text[])) IS NOT TRUE`;

/** The jobs in `picked`: those without a limit are locked here, the others in `allowed`. */
export const CLAIMED = `claimed AS (
  UPDATE holdfast.inbox AS i
  SET ${TAKE}, isolated = false
  WHERE i.ctid = ANY (ARRAY(
    SELECT i.ctid FROM holdfast.inbox AS i
    WHERE i.ctid = ANY (ARRAY(SELECT p.place FROM picked AS p WHERE NOT p.limited)) AND ${READY}
    FOR UPDATE SKIP LOCKED
  ) || ARRAY(SELECT a.place FROM allowed AS a WHERE a.ok))
  RETURNING ${RETURN_TAKEN}
)`;
