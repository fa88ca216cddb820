/**
 * `holdfast import pg-boss | graphile-worker | bullmq`: without --yes it reads all and writes nothing, and says what
 * would become of every job. With --yes a batch is written here and taken out there in one transaction where both are
 * in one database, and else in this order. Every job has an import key, so that a run which is repeated, or was cut
 * short anywhere, moves none twice. One import at a time: two would mix the order of keys.
 */
import { together } from '../../../api/act/acts.js';
import { type Imported, type ImportOutcome, writeImported } from '../../../enqueue/imported.js';
import { many } from '../../../inspect/reading/words.js';
import { ActRecord } from '../../../operate/audit.js';
import { checkUrl } from '../../../postgres/connect/address.js';
import { untilNotLost } from '../../../postgres/connect/backoff.js';
import { closePool, inTransaction, plainPool, withClient } from '../../../postgres/connect/pool.js';
import { type Executor, engineExecutor } from '../../../postgres/queryable.js';
import { actOptions } from '../../actor.js';
import { type Call, EXIT } from '../../command.js';
import { Failure, Partly, UsageError } from '../../failures.js';
import { countOption } from '../../parse/values.js';
import { Progress } from '../../print/progress.js';
import { type Converted, convert, Stays, type Target, typesOf } from './convert.js';
import { keyTemplate, refuseKeyless } from './keys.js';
import { type Moving, moveSchedules } from './schedules.js';
import { withRights } from './sources/postgres-source.js';
import type { Batch, SourceJob, Wanted } from './sources/source.js';
import { Tally } from './tally.js';

type Kind = 'pg-boss' | 'graphile-worker' | 'bullmq';

const MAX_PAYLOAD = 2 ** 20;
const MAX_BATCH = 10_000;
const USUAL = { 'pg-boss': 'pgboss', 'graphile-worker': 'graphile_worker', bullmq: 'bull' };
const LOCK = "SELECT pg_try_advisory_xact_lock(hashtext('holdfast.import'), hashtext($1)) AS free";

async function run(call: Call, kind: Kind): Promise<number> {
  const { given, session, out } = call;
  const queue = given.text('queue') ?? 'inbox';
  const [row] = await session.queues([queue]);
  const maxPayloadBytes = row?.maxPayloadBytes ?? MAX_PAYLOAD;
  const batch = countOption(given, 'batch', 1_000);
  if (batch > MAX_BATCH) throw new UsageError(`--batch must be at most ${MAX_BATCH}.`);
  const [dry, keep] = [!given.flag('yes'), given.flag('keep')];
  const target: Target = {
    ...{ kind, maxPayloadBytes, groups: row?.ordering === 'turns' },
    types: typesOf(given.texts('map'), given.text('prefix')),
    key: keyTemplate(given.text('key')),
  };
  const wanted: Wanted = {
    ...{ dry, batch, maxPayloadBytes, only: given.texts('only') ?? [] },
    ...{ failed: given.flag('failed'), crontab: given.text('crontab') },
  };
  const filter = wanted.only.length > 0 ? { only: wanted.only } : null;
  const act = { act: 'import', queue, filter, changes: { from: kind } } as const;
  const record = new ActRecord({ ...act, ...actOptions(given) });
  const moving = { call, target, tally: new Tally(), queue, dry, keep, record };
  return alone(call, async () => {
    const { source, close } = await open(call, kind, wanted);
    try {
      out.note(`${source.title} → queue "${queue}" of schema "${session.schema}"`);
      return await withRights(source.needs, () =>
        all({ ...moving, source }, row?.ordering === 'none'),
      );
    } finally {
      await close();
    }
  });
}

/** Two imports into one schema would mix the order of keys. */
async function alone(call: Call, work: () => Promise<number>): Promise<number> {
  const { session } = call;
  return withClient(session.pool, (client) =>
    inTransaction(client, async () => {
      await client.query('SET LOCAL idle_in_transaction_session_timeout = 0');
      const { rows } = await client.query(LOCK, [session.schema]);
      if (rows[0].free) return work();
      throw new Failure(
        `Another import into schema "${session.schema}" is running; nothing was moved. Wait until it ends.`,
      );
    }),
  );
}

async function open(call: Call, kind: Kind, wanted: Wanted) {
  const { given, session } = call;
  const from = given.text('from');
  const schema = given.text('from-schema') ?? USUAL[kind];
  if (wanted.crontab !== undefined && kind !== 'graphile-worker')
    throw new UsageError('--crontab is read for graphile-worker only.');
  if (kind === 'bullmq') {
    if (from === undefined)
      throw new UsageError(
        'Say where its Redis is: --from redis://127.0.0.1:6379. Nothing was moved.',
      );
    const source = await (await import('./sources/bullmq.js')).bullmq(from, schema, wanted);
    return { source, close: () => source.close() };
  }
  checkUrl(from, '--from');
  const quiet = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
  const own =
    from === undefined
      ? null
      : plainPool({ connectionString: from, applicationName: 'holdfast import' }, 3, quiet);
  const place = { pool: own ?? session.pool, same: !own, schema };
  const close = async () => void (own && (await closePool(own, 500)));
  try {
    const source = await withRights(
      `USAGE on schema "${schema}" and SELECT on its tables`,
      async () =>
        kind === 'pg-boss'
          ? (await import('./sources/pg-boss.js')).pgBoss(place, wanted)
          : (await import('./sources/graphile-worker.js')).graphileWorker(place, wanted),
    );
    return { source, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function all(moving: Moving, byTime: boolean): Promise<number> {
  const { call, source, target, tally } = moving;
  const { out, signal } = call;
  const progress = new Progress(out, null);
  let [done, keyed] = [0, 0];
  try {
    if (!moving.dry && target.key) await refuseKeyless(source, target, signal);
    // First: a scheduler that is removed takes its next job with it.
    await moveSchedules(moving);
    for (const { text, noun } of await source.losses()) tally.warn(text, noun);
    for (const { jobs, ...line } of await source.staying())
      tally.add({ ...line, becomes: null }, jobs);
    if (signal.aborted) return tell(moving);
    await source.each(async (batch) => {
      const count = await moveBatch(moving, batch);
      return () => {
        keyed += count();
        done += batch.jobs.length;
        progress.update(done);
        return !signal.aborted;
      };
    });
  } catch (error) {
    if (moving.dry || tally.moved + tally.schedules === 0) throw error;
    throw new Partly(
      error,
      `${many(tally.moved, 'job')} and ${many(tally.schedules, 'schedule')} were moved, and the same command goes on with the rest`,
    );
  } finally {
    progress.end();
  }
  if (byTime && keyed > 0)
    tally.warn('this queue is read by time, so jobs of one key may run side by side', 'job', keyed);
  return tell(moving);
}

interface Movable extends Converted {
  readonly from: SourceJob;
}

/** What is said of an outcome in the report; the jobs of the last one stay where they are. */
const WHY = {
  written: null,
  known: 'moved by an earlier import',
  folded: 'a job here has its key already',
  refused: 'Postgres cannot store its payload',
};

/** Returns how many have a key, when it is counted. */
async function moveBatch(moving: Moving, batch: Batch): Promise<() => number> {
  const { target, tally, dry, keep } = moving;
  const movable: Movable[] = [];
  const staying: { from: SourceJob; why: string }[] = [];
  for (const from of batch.jobs) {
    try {
      movable.push({ from, ...convert(from, target) });
    } catch (error) {
      if (!(error instanceof Stays)) throw error;
      staying.push({ from, why: error.message });
    }
  }
  const jobs = movable.map(({ to }) => to);
  const outcomes = dry ? jobs.map(() => 'written' as const) : await writeAll(moving, batch, jobs);
  const here = movable.filter((_, n) => outcomes[n] !== 'refused');
  const both =
    dry || keep || here.length === 0 ? 0 : await batch.remove(here.map(({ from }) => from.id));
  return () => {
    tally.both += both;
    for (const [n, { from, to, lacks, losses }] of movable.entries()) {
      const outcome = outcomes[n] as Outcome;
      const becomes = outcome === 'refused' ? null : to.job.type;
      tally.add({ from: from.from, state: from.state, becomes, why: WHY[outcome] });
      if (outcome === 'refused') continue;
      tally[outcome === 'written' ? 'moved' : outcome]++;
      if (target.key && outcome === 'written') tally.keyless.add(lacks);
      for (const loss of from.warnings) tally.warn(loss);
      for (const loss of losses) tally.warn(loss);
    }
    for (const { from, why } of staying)
      tally.add({ from: from.from, state: from.state, becomes: null, why });
    return jobs.filter(({ job }) => job.key !== job.id).length;
  };
}

type Outcome = ImportOutcome | 'refused';

/** One that Postgres refuses holds up no other: a batch with such a job is written in halves. */
async function writeAll(
  moving: Moving,
  batch: Batch,
  jobs: readonly Imported[],
): Promise<Outcome[]> {
  if (jobs.length === 0) return [];
  try {
    return await write(moving, batch, jobs);
  } catch (error) {
    const { code } = error as { code?: unknown };
    if (typeof code !== 'string' || !code.startsWith('22')) throw error;
    if (jobs.length === 1) return ['refused'];
    const half = Math.ceil(jobs.length / 2);
    const first = await writeAll(moving, batch, jobs.slice(0, half));
    return [...first, ...(await writeAll(moving, batch, jobs.slice(half)))];
  }
}

async function write({ call, queue, record }: Moving, { tx }: Batch, jobs: readonly Imported[]) {
  const names = call.session.names(queue);
  const writeIn = async (db: Executor) => {
    const outcomes = await writeImported(db, names, jobs);
    const written = outcomes.filter((outcome) => outcome === 'written').length;
    await record.addJobs(db, names, written);
    return outcomes;
  };
  if (!tx) return together(call.session.pool, writeIn);
  const db = engineExecutor(tx as never, { prepare: false });
  return untilNotLost(async () => {
    await tx.query('SAVEPOINT import');
    try {
      return await writeIn(db);
    } catch (error) {
      await tx.query('ROLLBACK TO SAVEPOINT import').catch(() => undefined);
      throw error;
    }
  });
}

async function tell({ call, source, tally, dry, keep }: Moving): Promise<number> {
  const { out, signal } = call;
  await tally.print(out);
  const { moved, known, folded, stayed, schedules, both } = tally;
  for (const warning of source.warnings) out.note(`Warning: ${warning}`);
  if (both > 0)
    out.note(`Warning: ${many(both, 'job')} could not be removed there and may run there, too.`);
  if (out.json)
    await out.value({ dryRun: dry, moved: dry ? 0 : moved, known, folded, stayed, schedules });
  const what = `${many(moved, 'job')} and ${many(schedules, 'schedule')}`;
  const where = source.apart
    ? 'another store, so stop its workers first'
    : 'in one transaction a batch';
  if (dry) {
    const leaves = keep ? 'copy' : 'move';
    out.note(`This would ${leaves} ${what} (${where}). Nothing was done: add --yes to do it.`);
    return signal.aborted ? EXIT.interrupted : EXIT.ok;
  }
  out.note(`${what} ${keep ? 'copied' : 'moved'}; ${many(stayed, 'job')} left there.`);
  if (keep) out.note('--keep left them in the source: its workers must not run any more.');
  if (!signal.aborted) return EXIT.ok;
  out.note('Interrupted: the rest is as it was. The same command goes on.');
  return EXIT.interrupted;
}

export const runPgBoss = (call: Call) => run(call, 'pg-boss');
export const runGraphileWorker = (call: Call) => run(call, 'graphile-worker');
export const runBullmq = (call: Call) => run(call, 'bullmq');
