/** Where a schema stands: what was applied, what each queue has, which functions and indexes are there. */
import type { Ordering } from '../job/order.js';
import { quoteName } from '../postgres/names.js';
import type { Queryable } from '../postgres/queryable.js';
import type { Program } from './migrations.js';
import { recordsOf } from './texts.js';

export interface AppliedRow {
  readonly id: number;
  readonly name: string;
  readonly breaksBefore: number;
  readonly appliedAt: Date;
}

export interface QueueState {
  readonly name: string;
  /** Up to which migration it has been brought. */
  readonly migration: number;
  readonly ordering: Ordering;
}

export interface SchemaState {
  /** Whether there is a schema of this name, with tables or without. */
  readonly exists: boolean;
  /** How many migrations were applied. */
  readonly version: number;
  readonly queues: readonly QueueState[];
  /** By function file. */
  readonly checksums: ReadonlyMap<string, string>;
  /** By function, what was granted on it: `EXECUTE ON FUNCTION … TO somebody`. Without a drop nobody asks. */
  readonly grants: ReadonlyMap<string, readonly string[]>;
  /** How many migrations the oldest program knows that a live worker runs; infinity if none lives. */
  readonly oldestWorker: number;
  /** By index, whether it can be used. Without an online step nobody asks. */
  readonly indexes: ReadonlyMap<string, 'valid' | 'invalid' | 'building'>;
}

export async function rows(db: Queryable, text: string, params?: unknown[]) {
  const result = await db.query(text, params);
  return Array.isArray(result) ? result : result.rows;
}

/** No to_regclass(): a session that waited for a lock would answer what it knew before. */
const FOUND = `
SELECT EXISTS (SELECT FROM pg_class AS c WHERE c.relnamespace = n.oid AND c.relname = 'migrations') AS records
FROM pg_namespace AS n WHERE n.nspname = $1::text`;

export async function applied(db: Queryable, schema: string): Promise<AppliedRow[]> {
  const records = recordsOf(schema);
  const [found] = await rows(db, FOUND, [schema]);
  if (!found?.records) return [];
  const list = await rows(
    db,
    `SELECT id, name, breaks_before, (extract(epoch FROM applied_at) * 1000)::float8 AS applied_ms FROM ${records} ORDER BY id`,
  );
  return list.map((row) => ({
    id: Number(row.id),
    name: String(row.name),
    breaksBefore: Number(row.breaks_before),
    appliedAt: new Date(Number(row.applied_ms)),
  }));
}

/** With PUBLIC it begins: who may not call a function any more is not given the right back by a default. */
const GRANTS = `
SELECT p.proname::text AS name, g.text, g.turn
FROM pg_proc AS p
CROSS JOIN LATERAL (
  SELECT format('REVOKE ALL ON FUNCTION %I.%I FROM PUBLIC', $1::text, p.proname) AS text, 1 AS turn
  UNION ALL
  SELECT format('GRANT EXECUTE ON FUNCTION %I.%I TO %s%s', $1::text, p.proname,
    CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END,
    CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END), 2
  FROM aclexplode(p.proacl) AS a WHERE a.grantee <> p.proowner
) AS g
WHERE p.pronamespace = (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = $1::text) AND p.proacl IS NOT NULL
ORDER BY g.turn, g.text`;

/** Workers of version 0.1 do not say it. Those that were killed with their whole fleet are not declared dead by anybody. */
const OLDEST = (own: string) => `
SELECT coalesce(min(CASE WHEN jsonb_typeof(w.metadata -> 'migrations') = 'number'
  THEN (w.metadata ->> 'migrations')::numeric ELSE 1 END), 'infinity')::float8 AS oldest
FROM ${own}.workers AS w
WHERE w.status <> 'dead' AND w.last_seen_at > now() - interval '1 hour'`;

const INDEXES = `
SELECT c.relname::text AS name, CASE WHEN i.indisvalid THEN 'valid'
  WHEN EXISTS (SELECT FROM pg_stat_progress_create_index AS b WHERE b.relid = i.indrelid) THEN 'building'
  ELSE 'invalid' END AS state
FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE c.relnamespace = (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = $1::text)`;

export async function readState(
  db: Queryable,
  schema: string,
  { migrations, functions }: Program,
): Promise<SchemaState> {
  const version = (await applied(db, schema)).length;
  if (version === 0) {
    const [found] = await rows(db, FOUND, [schema]);
    const none = { version, queues: [], checksums: new Map(), grants: new Map() };
    const oldestWorker = Number.POSITIVE_INFINITY;
    return { ...none, exists: found !== undefined, oldestWorker, indexes: new Map() };
  }
  const own = quoteName(schema);
  // Both are made by migration 2.
  const tracked = version > 1;
  const queues = await rows(
    db,
    `SELECT name, ${tracked ? 'migration' : '1'} AS migration, ordering::text AS ordering FROM ${own}.queues ORDER BY name`,
  );
  const recorded = tracked ? await rows(db, `SELECT name, checksum FROM ${own}.functions`) : [];
  const grants = new Map<string, string[]>();
  for (const row of functions.some(({ drop }) => drop) ? await rows(db, GRANTS, [schema]) : []) {
    const name = String(row.name);
    grants.set(name, [...(grants.get(name) ?? []), String(row.text)]);
  }
  const online = migrations.some((migration) => migration.online);
  const indexes = online ? await rows(db, INDEXES, [schema]) : [];
  const [workers] = online ? await rows(db, OLDEST(own)) : [];
  return {
    exists: true,
    version,
    queues: queues.map((row) => ({
      name: String(row.name),
      migration: Number(row.migration),
      ordering: row.ordering as Ordering,
    })),
    checksums: new Map(recorded.map((row) => [String(row.name), String(row.checksum)])),
    grants,
    oldestWorker: Number(workers?.oldest ?? Number.POSITIVE_INFINITY),
    indexes: new Map(
      indexes.map((row) => [String(row.name), row.state as 'valid' | 'invalid' | 'building']),
    ),
  };
}
