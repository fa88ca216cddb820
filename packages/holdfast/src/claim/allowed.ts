/** What limits say in a claim: of the limited jobs that it found, which may start, and of the others, when to ask again. */

const LIMITED_TYPES = '(SELECT o.limited FROM open_queue AS o)::text[]';

/** A limit holds for jobs of this type. */
export const limited = (type: string) =>
  `(${type} = ANY (${LIMITED_TYPES}) OR '' = ANY (${LIMITED_TYPES})) IS TRUE`;

/**
 * Which of these limited jobs may start: see schema/functions/limits/allow.sql.ts. It locks their rows and pays. In a claim that
 * has found none it is not called. `limitedJobs` are in the order in which they are to start.
 */
export const allowed = (limitedJobs: string) => `allowed AS MATERIALIZED (
  SELECT a.*
  FROM (
    SELECT array_agg(p.place) AS places, array_agg(p.type) AS types, array_agg(p.limit_key) AS keys
    FROM (${limitedJobs}) AS p
  ) AS c
  CROSS JOIN LATERAL holdfast.inbox_allow($1::text, $6::jsonb, c.places, c.types, c.keys) AS a
  WHERE c.places IS NOT NULL
)`;

/**
 * Of the rows in `kept`, which a claim by key has locked, those of limited types. Without a limit nothing is read for it.
 * `order`: of those of one run.
 */
export const allowedOfKept = (order = '') =>
  allowed(`
      SELECT k.place, i.type, i.limit_key
      FROM kept AS k
      JOIN holdfast.inbox AS i ON i.ctid = k.place
      WHERE ${LIMITED_TYPES} IS NOT NULL AND ${limited('i.type')}
      ORDER BY k.run, ${order} i.available_at, i.position
    `);

/** The rows in `kept` but for those that no limit allows. */
export const KEPT_AND_ALLOWED = `SELECT k.place FROM kept AS k
    WHERE NOT EXISTS (SELECT FROM allowed AS a WHERE a.place = k.place AND NOT a.ok)`;

/**
 * In how many milliseconds (-1: when a permit is free) and in which bucket jobs may start that no limit allows now; with the
 * type if it holds for all of it.
 */
export const HELD_BACK = `(SELECT string_agg(DISTINCT concat_ws(':', coalesce(a.again_ms, -1), i.partition_bucket,
      CASE WHEN a.whole THEN a.type END), ',')
    FROM allowed AS a JOIN holdfast.inbox AS i ON i.ctid = a.place WHERE NOT a.ok)`;

/**
 * The last job in the order of the claim that a limit allows: its bucket, group and key, and whether another key of its bucket
 * must wait behind it.
 */
export const LAST_ALLOWED = `(SELECT jsonb_build_array(l.partition_bucket, coalesce(l.group_key, ''), l.partition_key,
      EXISTS (SELECT FROM allowed AS a JOIN holdfast.inbox AS w ON w.ctid = a.place
        WHERE NOT a.ok AND a.nth > g.nth AND w.partition_bucket = l.partition_bucket
          AND (w.group_key, w.partition_key) IS DISTINCT FROM (l.group_key, l.partition_key)))
    FROM (SELECT a.place, a.nth FROM allowed AS a WHERE a.ok ORDER BY a.nth DESC LIMIT 1) AS g
    JOIN holdfast.inbox AS l ON l.ctid = g.place)`;

/** How many jobs were ready that no limit allows now. */
export const REFUSED_JOBS = `(SELECT count(*) FROM allowed AS a WHERE NOT a.ok)`;

/** By type, when it may be asked for again, in milliseconds; null: when a permit is free. */
export type Refused = Readonly<Record<string, number | null>>;
