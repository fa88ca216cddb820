/** When the rate of a job has a token, by the state that claims keep (schema/functions/limits/allow.sql.ts). */

/** The rate of jobs of this type: its own, or else that of its queue. */
const RATE = (type: string) => `
    SELECT l.id, l.keyed, l.rate_burst, extract(epoch FROM l.rate_per)::double precision / l.rate_limit AS pace
    FROM holdfast.limits AS l
    WHERE l.queue = 'inbox' AND (l.type IS NULL OR l.type = ${type}) AND l.rate_limit IS NOT NULL
    ORDER BY l.type NULLS LAST LIMIT 1`;

/**
 * A row with `opens_at`, for jobs of a type and key that wait; NULL, or no row: there is a token now, or no rate. A row of
 * `rates` remembers the pace at which it was written, so what is left of it is scaled to the pace of now.
 */
export const OPENS_AT = (type: string, key: string) => `
  SELECT CASE WHEN o.at > now() THEN o.at END AS opens_at
  FROM (${RATE(type)}
  ) AS l
  JOIN holdfast.rates AS r ON r.limit_id = l.id AND r.key = CASE WHEN l.keyed THEN coalesce(${key}, '') ELSE '' END
  CROSS JOIN LATERAL (
    SELECT now() + (least(315360000, extract(epoch FROM r.started_tat - now())::double precision
      * l.pace / coalesce(r.pace, l.pace)) - (l.rate_burst - 1) * l.pace) * interval '1 second' AS at
  ) AS o`;
