/**
 * Looks for everything that is known to go wrong, and says for each what it found, why it matters and the fix. What it
 * tries, it rolls back. It needs two connections at once, so it has a pool of its own. Locks come first, because they keep
 * other checks from answering; before them only that nobody works at all.
 */
import { findDrift } from '../../inspect/doctor/catalogue.js';
import { judgeClocks } from '../../inspect/doctor/cause/clocks.js';
import { readHolders } from '../../inspect/doctor/cause/holders.js';
import {
  type Finding,
  LIMITS,
  type Limits,
  note,
  ok,
  problem,
} from '../../inspect/doctor/doctor.js';
import { judgeDrift } from '../../inspect/doctor/drift.js';
import { judgeTrouble } from '../../inspect/doctor/fleet.js';
import { judgeLocks } from '../../inspect/doctor/locks.js';
import { judgePausedSchedules } from '../../inspect/doctor/pauses.js';
import { judgeProjections } from '../../inspect/doctor/projections.js';
import { judgeQueues } from '../../inspect/doctor/queues.js';
import { judgeRights } from '../../inspect/doctor/rights.js';
import { fewLeft, judgeLine, judgeServer, type Server } from '../../inspect/doctor/server.js';
import { judgeSettings } from '../../inspect/doctor/settings.js';
import { judgeFrozen, judgeTables, readFrozen, readTables } from '../../inspect/doctor/tables.js';
import { judgeHorizon, judgeTable, readHorizon, readVacuum } from '../../inspect/doctor/vacuum.js';
import { type Culprit, judgeVanished, judgeWorkers } from '../../inspect/doctor/workers.js';
import { isLive, listWorkers, saysOf, type WorkerRow } from '../../inspect/fleet/workers.js';
import { findPoison, findSuspects } from '../../inspect/job/failures.js';
import { lagOf } from '../../inspect/projections/lag.js';
import {
  isDenied,
  type Overview,
  type QueueOverview,
  queuesOverview,
  workersOverview,
} from '../../inspect/queue/overview.js';
import { type PauseAct, pauseActs } from '../../inspect/queue/paused-by.js';
import { isPartlyPaused, listQueues, type QueueRow } from '../../inspect/queue/queues.js';
import { readLocks } from '../../inspect/reading/locks.js';
import { HoldfastError } from '../../job/errors/holdfast-error.js';
import { closePool, plainPool, withClient } from '../../postgres/connect/pool.js';
import { readSchedules } from '../../schedule/list.js';
import { checkSchema } from '../../schema/migrate.js';
import { MIGRATIONS } from '../../schema/migrations.js';
import { commonText, queueText } from '../../schema/texts.js';
import type { Access } from '../access.js';
import { inUse, lookAround } from './doctor-around.js';
import { meet } from './doctor-meet.js';
import { lookAtQueue } from './doctor-queue.js';
import { type DoctorTarget, Round } from './doctor-round.js';

const CLOSE_MS = 500;
const MOST_PAUSED = 1_000;

export type { DoctorTarget } from './doctor-round.js';

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
  const { schema } = target;
  const round = new Round(target);
  const { server, settings, line } = await meet(target, round);
  await round.check('locks', async (db) => judgeLocks(await readLocks(db, schema), limits));
  const holders = fewLeft(server, limits)
    ? await round.read('connections', (db) => readHolders(db, schema))
    : null;
  round.add([...judgeServer(server, limits, holders ?? []), ...judgeSettings(settings)]);
  await lookAround(target, round);
  const migrated = await judgeSchema(target, round);
  if (migrated)
    await round.check('projections', async (db) =>
      judgeProjections(await lagOf(db, { schema, queue: 'inbox' }, null)),
    );
  const seen = migrated ? await look(target, round) : null;
  if (migrated) await round.check('rights', (db) => judgeRights(db, schema, seen?.all ?? []));
  const leaseMs = shortest(seen, 'leaseMs', 90_000);
  round.add(judgeLine(line, limits, leaseMs, shortest(seen, 'heartbeatMs', 10_000)));
  await round.check('vacuum horizon', async (db) =>
    judgeHorizon(await readHorizon(db, schema), limits),
  );
  if (!seen) return round.findings;
  await lookAtSchema(target, round, seen, server, limits);
  const at = server.nowMs;
  for (const queue of seen.queues) await lookAtQueue(target, round, queue, seen.all, at, limits);
  const { overview, all } = seen;
  const poison = new Map<string, readonly string[]>();
  for (const { queue, counts } of overview.queues) {
    const names = { schema, queue: queue.name };
    if (counts.deadLetter > 0) {
      const found = await round.read('dead letters', (db) => findPoison(db, names));
      poison.set(queue.name, found ?? []);
    }
    await round.check('dead rows', async (db) => {
      const vacuum = await readVacuum(db, names);
      return vacuum && judgeTable(names, counts, vacuum, limits);
    });
  }
  const counted = overview.queues.length === seen.queues.length;
  if (all) {
    const found = judgeWorkers(overview, limits, counted);
    // Without anybody who works, nothing else that is found matters as much.
    const nobody = !all.some(isLive) && found.some(({ level }) => level === 'problem');
    if (nobody) round.findings.unshift(...found);
    else round.add(found);
    round.add([...judgeTrouble(all), ...judgeClocks(all, limits)]);
    round.add(await vanished(target, round, seen, limits));
  }
  const acts = await pauses(target, round, seen, at);
  round.add(judgeQueues(overview, limits, poison, acts));
  return round.findings;
}

/** Who paused what is asked where something is paused; who may not read the audit is not told. */
async function pauses(
  { schema }: DoctorTarget,
  round: Round,
  { queues }: Seen,
  at: number,
): Promise<readonly PauseAct[]> {
  const page = { after: null, limit: MOST_PAUSED };
  const names = { schema, queue: 'inbox' };
  const schedules = await round.read('paused schedules', (db) =>
    readSchedules(db, names, { paused: true }, page),
  );
  const isPaused = queues.some((queue) => queue.paused || isPartlyPaused(queue));
  if (!isPaused && !schedules?.length) return [];
  const acts = await round.read('paused', (db) =>
    pauseActs(db, schema).catch((error) => {
      if (!isDenied(error)) throw error;
      return [];
    }),
  );
  const paused = (schedules ?? []).map(({ name }) => name);
  round.add(judgePausedSchedules(paused, acts ?? [], at));
  return acts ?? [];
}

/** Jobs are only asked for where somebody vanished. */
async function vanished(
  { schema }: DoctorTarget,
  round: Round,
  { all, queues }: Seen,
  limits: Limits,
): Promise<Finding> {
  const plain = judgeVanished(all ?? [], [], limits);
  if (plain.level === 'ok') return plain;
  const culprits: Culprit[] = [];
  for (const { name: queue } of queues) {
    const found = await round.read('vanished workers', (db) => findSuspects(db, { schema, queue }));
    culprits.push(...(found ?? []).map((one) => ({ queue, ...one })));
  }
  culprits.sort((a, b) => b.crashes - a.crashes);
  return judgeVanished(all ?? [], culprits, limits);
}
/** Of more queues the catalogue is not compared: it would take minutes. */
const MOST_COMPARED = 50;

interface Seen {
  /** Also those that were passed over. */
  readonly listed: readonly QueueRow[];
  readonly queues: readonly QueueRow[];
  /** Also the dead; null when they could not be read. */
  readonly all: readonly WorkerRow[] | null;
  /** What could be read of it. */
  readonly overview: Overview;
}

async function judgeSchema({ schema }: DoctorTarget, round: Round): Promise<boolean> {
  const state = await round.readOn('schema', async (client) => {
    try {
      await checkSchema(client, schema);
      return ok('schema', `"${schema}" is at migration ${MIGRATIONS.length}`);
    } catch (error) {
      if ((error as { code?: unknown }).code === '42501') {
        return problem(
          'rights',
          `${(error as Error).message}.`,
          'A worker that connects as this user does not start, and nothing further can be looked at.',
          'As the owner of the schema run node_modules/holdfast/dist/roles.sql, then GRANT holdfast_worker TO this user.',
        );
      }
      if (!(error instanceof HoldfastError)) throw error;
      return problem('schema', error.message, 'Workers refuse to start.', fixFor(error.code));
    }
  });
  if (state) round.add(state);
  return state?.level === 'ok';
}

const fixFor = (code: string) =>
  code === 'SCHEMA_TOO_NEW' ? 'Upgrade holdfast.' : 'holdfast migrate';

/** The queues, the workers and each queue's counts, one by one: what is locked does not hide the rest. */
async function look({ schema }: DoctorTarget, round: Round): Promise<Seen | null> {
  const listed = await round.read('queues', (db) => listQueues(db, schema));
  if (!listed) return null;
  const queues = await inUse(schema, round, listed);
  const all = await round.read('workers', (db) => listWorkers(db, schema, { withDead: true }));
  const counted: QueueOverview[] = [];
  for (const { name } of queues) {
    const found = await round.read(`jobs of ${name}`, (db) =>
      queuesOverview(db, schema, { queues: [name] }),
    );
    counted.push(...(found ?? []));
  }
  const here = (all ?? []).filter(({ status }) => status !== 'dead');
  const overview = { queues: counted, workers: workersOverview(here, counted) };
  return { listed, queues, all, overview };
}

/** What the live workers say of their settings; else the defaults. */
function shortest(seen: Seen | null, fact: string, fallback: number): number {
  const said = (seen?.overview.workers ?? []).map(({ worker }) => Number(saysOf(worker, fact)));
  const known = said.filter((ms) => ms > 0);
  return known.length > 0 ? Math.min(...known) : fallback;
}

async function lookAtSchema(
  target: DoctorTarget,
  round: Round,
  seen: Seen,
  server: Server,
  limits: Limits,
): Promise<void> {
  const { schema } = target;
  round.add(await drift(target, round, seen, server));
  const tables = await round.read('tables', (db) => readTables(db, schema));
  if (tables) round.add(judgeTables(schema, tables));
  const frozen = await round.read('wraparound', (db) => readFrozen(db, schema));
  if (frozen) round.add(judgeFrozen(schema, frozen, tables ?? [], limits));
}

async function drift(
  target: DoctorTarget,
  round: Round,
  { listed }: Seen,
  server: Server,
): Promise<Finding[]> {
  if (listed.length > MOST_COMPARED)
    return [ok('schema drift', `not compared: there are ${listed.length} queues`)];
  if (server.replica || !server.mayCreate) {
    return [
      note(
        'schema drift',
        `It was not looked for: ${server.replica ? 'on a replica no schema can be made' : 'this user may not create a schema'} to compare with.`,
        'A missing or changed index would not be noticed.',
        `Run the doctor ${server.replica ? 'on the primary' : 'as the owner of the database'}.`,
      ),
    ];
  }
  const texts = (schema: string) => [
    commonText(schema),
    ...listed.map(({ name }) => queueText(schema, name)),
  ];
  const found = await round.attempt('schema drift', () =>
    withClient(target.pool, (client) => findDrift(client, target.schema, texts)),
  );
  return found ? judgeDrift(target.schema, found) : [];
}
