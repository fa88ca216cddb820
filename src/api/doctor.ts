/**
 * Looks for everything that is known to go wrong, and says for each what it found, why it matters and the fix. It
 * changes nothing: what it tries, it rolls back. It needs two connections at once, so it has a pool of its own.
 */
import type pg from 'pg';
import { findDrift } from '../inspect/catalogue.js';
import { type Finding, LIMITS, type Limits, note, ok, problem } from '../inspect/doctor.js';
import { judgeDrift } from '../inspect/doctor-drift.js';
import { receivesItself } from '../inspect/doctor-notify.js';
import { judgeQueues, judgeWorkers } from '../inspect/doctor-queues.js';
import { judgeRights } from '../inspect/doctor-rights.js';
import {
  judgeLine,
  judgeServer,
  type Line,
  readServer,
  type Server,
} from '../inspect/doctor-server.js';
import { judgeHorizon, judgeTable, readHorizon, readVacuum } from '../inspect/doctor-vacuum.js';
import { type Overview, overview } from '../inspect/overview.js';
import { reading } from '../inspect/reading.js';
import { saysOf } from '../inspect/workers.js';
import { HoldfastError } from '../job/errors.js';
import { loadText } from '../postgres/names.js';
import { closePool, plainPool, withClient } from '../postgres/pool.js';
import { engineExecutor } from '../postgres/queryable.js';
import { checkSchema } from '../schema/migrate.js';
import { MIGRATIONS } from '../schema/migrations.js';
import type { Access } from './access.js';

const RECEIVE_MS = 1_000;
const ROUND_TRIPS = 7;
const CLOSE_MS = 500;

/** Where to look. */
export interface DoctorTarget {
  /** Of two connections or more. */
  readonly pool: pg.Pool;
  readonly schema: string;
}

/** On connections of its own, which are closed at the end. */
export async function examine({ connection, schema, log }: Access): Promise<Finding[]> {
  const pool = plainPool({ ...connection, applicationName: 'holdfast doctor' }, 3, log);
  try {
    return await diagnose({ pool, schema });
  } finally {
    await closePool(pool, CLOSE_MS);
  }
}

export async function diagnose(target: DoctorTarget, limits: Limits = LIMITS): Promise<Finding[]> {
  const { server, line } = await meet(target);
  const schema = await judgeSchema(target);
  const migrated = schema.level === 'ok';
  const seen = migrated ? await reading(target.pool, (db) => overview(db, target.schema)) : null;
  return [
    ...judgeServer(server, limits),
    ...judgeLine(
      line,
      limits,
      shortest(seen, 'leaseMs', 90_000),
      shortest(seen, 'heartbeatMs', 10_000),
    ),
    schema,
    ...(seen ? await judgeTables(target, seen, server, limits) : []),
    ...judgeHorizon(await reading(target.pool, (db) => readHorizon(db, target.schema)), limits),
    ...(seen ? [...judgeQueues(seen, limits), ...judgeWorkers(seen, limits)] : []),
  ];
}

/** Two connections: what the server says of itself, and how it sounds from here. */
function meet(target: DoctorTarget): Promise<{ server: Server; line: Line }> {
  return withClient(target.pool, (client) =>
    withClient(target.pool, async (other) => {
      const db = engineExecutor(client, { prepare: false });
      const times: number[] = [];
      let [server, skewMs] = [await readServer(db, target.schema), 0];
      for (let n = 0; n < ROUND_TRIPS; n++) {
        const [sent, from] = [Date.now(), performance.now()];
        server = await readServer(db, target.schema);
        const took = performance.now() - from;
        if (took <= Math.min(...times)) skewMs = server.nowMs - sent - took / 2;
        times.push(took);
      }
      const announcedPid = (client as unknown as { processID: number }).processID;
      const direct = announcedPid === server.backendPid;
      const received =
        direct && (await receivesItself(client, other, AbortSignal.timeout(RECEIVE_MS)));
      const roundTripMs = times.sort((a, b) => a - b)[ROUND_TRIPS >> 1] as number;
      const { backendPid } = server;
      return { server, line: { announcedPid, backendPid, roundTripMs, skewMs, received } };
    }),
  );
}

/** What the live workers say of their settings; else the defaults. */
function shortest(seen: Overview | null, fact: string, fallback: number): number {
  const said = (seen?.workers ?? []).map(({ worker }) => Number(saysOf(worker, fact)));
  const known = said.filter((ms) => ms > 0);
  return known.length > 0 ? Math.min(...known) : fallback;
}

async function judgeSchema(target: DoctorTarget): Promise<Finding> {
  try {
    await checkSchema(target.pool, target.schema);
    return ok('schema', `"${target.schema}" is at migration ${MIGRATIONS.length}`);
  } catch (error) {
    if ((error as { code?: unknown }).code === '42501') {
      return problem(
        'rights',
        `${(error as Error).message}.`,
        'A worker that connects as this user does not start, and nothing further can be looked at.',
        'As the owner of the schema run docs/roles.sql, then GRANT holdfast_worker TO this user.',
      );
    }
    if (!(error instanceof HoldfastError)) throw error;
    return problem('schema', error.message, 'Workers refuse to start.', fixFor(error.code));
  }
}

const fixFor = (code: string) =>
  code === 'SCHEMA_TOO_NEW' ? 'Upgrade holdfast.' : 'holdfast migrate';

async function judgeTables(
  target: DoctorTarget,
  seen: Overview,
  server: Server,
  limits: Limits,
): Promise<Finding[]> {
  const findings = [await reading(target.pool, (db) => judgeRights(db, target.schema))];
  findings.push(...(await drift(target, seen, server)));
  for (const { queue, counts } of seen.queues) {
    const names = { schema: target.schema, queue: queue.name };
    const vacuum = await reading(target.pool, (db) => readVacuum(db, names));
    findings.push(...judgeTable(names, counts.size, vacuum, limits));
  }
  return findings;
}

async function drift(target: DoctorTarget, seen: Overview, server: Server): Promise<Finding[]> {
  if (!server.mayCreate || server.replica) {
    return [
      note(
        'schema drift',
        'It was not looked for: this user may not create a schema to compare with.',
        'A missing or changed index would not be noticed.',
        'Run the doctor as the owner of the database.',
      ),
    ];
  }
  const queues = seen.queues.map(({ queue }) => queue.name);
  const texts = (schema: string) =>
    MIGRATIONS.flatMap((migration) => [
      loadText(migration.common, { schema, queue: 'inbox' }),
      ...queues.map((queue) => loadText(migration.perQueue, { schema, queue })),
    ]);
  return judgeDrift(
    target.schema,
    await withClient(target.pool, (client) => findDrift(client, target.schema, texts)),
  );
}
