/** How many jobs a claim may take from a queue that is read by key. */
import type { FunctionFile } from '../function-file.js';

export const allowance: FunctionFile = {
  name: 'allowance',
  of: 'queue',
  text: `
-- How many jobs a claim may take from a queue that is read by key, of those that it wants. under: NULL: nothing limits
-- them; a type whose limit holds; '': types that only the queue's limit holds for. Whoever claims under a limit at the
-- same moment has its lock, and then it is none. The lock lasts until the claim has committed, and the count begins
-- when it is held. base and pace are what the starts are paid with (taking.ts); again_ms: when there may be more.
CREATE OR REPLACE FUNCTION holdfast.inbox_allowance(
  wanted integer, under text, OUT jobs integer, OUT again_ms bigint, OUT rate_id integer, OUT base timestamptz,
  OUT pace interval
) LANGUAGE plpgsql AS $fn$
DECLARE
  held holdfast.limits[];
  own holdfast.limits;
  rate holdfast.limits;
  of_queue holdfast.limits;
  moment timestamptz;
  tokens bigint;
  seconds double precision;
BEGIN
  jobs := wanted;
  IF under IS NULL OR wanted < 1 THEN
    RETURN;
  END IF;
  SELECT array_agg(h.l) INTO held
  FROM (
    SELECT l FROM holdfast.limits AS l
    WHERE l.queue = 'inbox' AND (l.type IS NULL OR l.type = under) ORDER BY l.id FOR UPDATE SKIP LOCKED
  ) AS h;
  IF coalesce(cardinality(held), 0) < (
    SELECT count(*) FROM holdfast.limits AS l WHERE l.queue = 'inbox' AND (l.type IS NULL OR l.type = under)) THEN
    jobs := 0;
    again_ms := 5;
    RETURN;
  END IF;
  SELECT h.* INTO of_queue FROM unnest(held) AS h WHERE h.type IS NULL;
  SELECT h.* INTO own FROM unnest(held) AS h WHERE h.type IS NOT NULL;
  moment := clock_timestamp();
  IF of_queue.concurrency IS NOT NULL OR own.concurrency IS NOT NULL THEN
    SELECT greatest(0, least(wanted, of_queue.concurrency - count(*),
      own.concurrency - count(*) FILTER (WHERE r.type = under)))
    INTO jobs
    FROM (SELECT DISTINCT j.id FROM holdfast.inbox_claims AS c CROSS JOIN LATERAL unnest(c.jobs) AS j(id)) AS h
    CROSS JOIN LATERAL (
      SELECT i.type FROM holdfast.inbox AS i WHERE i.id = h.id AND i.status = 'processing' LIMIT 1
    ) AS r;
  END IF;
  -- A job has one rate: that of its type, or else that of its queue.
  IF own.rate_limit IS NOT NULL THEN
    rate := own;
  ELSIF of_queue.rate_limit IS NOT NULL THEN
    rate := of_queue;
  ELSE
    RETURN;
  END IF;
  seconds := extract(epoch FROM rate.rate_per) / rate.rate_limit;
  SELECT greatest(max(r.started_tat), moment) INTO base
  FROM holdfast.rates AS r WHERE r.limit_id = rate.id AND r.key = '';
  tokens := greatest(0, floor(rate.rate_burst + 1e-6
    - extract(epoch FROM base - moment)::double precision / seconds));
  rate_id := rate.id;
  pace := seconds * interval '1 second';
  IF tokens <= jobs THEN
    jobs := tokens;
    again_ms := ceil(extract(epoch FROM base + (tokens - (rate.rate_burst - 1)) * pace - moment) * 1000);
  END IF;
END
$fn$;
`,
};
