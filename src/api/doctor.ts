/**
 * `holdfast doctor`: looks for everything that is known to go wrong, and says for each what it found, why it
 * matters and the fix. Exit code 3 if there is a problem. It changes nothing: what it tries, it rolls back.
 */
import { findDrift } from '../../inspect/catalogue.js';
import { type Finding, LIMITS, type Limits, note, ok, problem } from '../../inspect/doctor.js';
import { judgeDrift } from '../../inspect/doctor-drift.js';
import { receivesItself } from '../../inspect/doctor-notify.js';
import { judgeQueues, judgeWorkers } from '../../inspect/doctor-queues.js';
import { judgeRights } from '../../inspect/doctor-rights.js';
import {
  judgeLine,
  judgeServer,
  type Line,
  readServer,
  type Server,
} from '../../inspect/doctor-server.js';
import { judgeHorizon, judgeTable, readHorizon, readVacuum } from '../../inspect/doctor-vacuum.js';
import { type Overview, overview } from '../../inspect/overview.js';
import { saysOf } from '../../inspect/workers.js';
import { HoldfastError } from '../../job/errors.js';
import { loadText } from '../../postgres/names.js';
import { withClient } from '../../postgres/pool.js';
import { engineExecutor } from '../../postgres/queryable.js';
import { MIGRATIONS } from '../../schema/migrations.js';
import { type Call, EXIT, UsageError } from '../command.js';
import { judgeEmbedded } from '../doctor-embedded.js';
import { pasteable } from '../paste.js';
import type { Session } from '../session.js';
import { plain } from '../table.js';

const RECEIVE_MS = 1_000;
const ROUND_TRIPS = 7;

export async function run({ args, session, out }: Call): Promise<number> {
  if (args.length > 0)
    throw new UsageError(`doctor takes no argument, but "${args[0]}" was given.`);
  const findings = (await diagnose(session)).map((finding) => ({
    ...finding,
    fix: finding.fix && pasteable(finding.fix, session.schema),
  }));
  const problems = findings.filter(({ level }) => level === 'problem').length;
  for (const finding of findings) {
    if (out.json) await out.value(finding);
    else await print(out, finding);
  }
  const notes = findings.filter(({ level }) => level === 'note').length;
  out.note(
    problems + notes === 0
      ? `All ${findings.length} checks are well.`
      : `${problems} problem(s), ${notes} note(s), ${findings.length - problems - notes} well.`,
  );
  return problems > 0 ? EXIT.unhealthy : EXIT.ok;
}

const MARKS = { ok: ['ok', 'good'], note: ['note', 'worry'], problem: ['PROBLEM', 'bad'] } as const;

async function print(out: Call['out'], { check, level, text, why, fix }: Finding): Promise<void> {
  const [mark, style] = MARKS[level];
  await out.line(`${out.paint(mark.padEnd(7), style)}  ${check}: ${plain(text)}`);
  if (why) await out.line(`         why: ${plain(why)}`);
  if (fix) await out.line(`         fix: ${plain(fix)}`);
}

export async function diagnose(
  session: Session,
  limits: Limits = LIMITS,
  folder = process.cwd(),
): Promise<Finding[]> {
  const { server, line } = await meet(session);
  const schema = await judgeSchema(session);
  const migrated = schema.level === 'ok';
  const seen = migrated ? await session.read((db) => overview(db, session.schema)) : null;
  return [
    ...judgeServer(server, limits),
    ...judgeLine(
      line,
      limits,
      shortest(seen, 'leaseMs', 90_000),
      shortest(seen, 'heartbeatMs', 10_000),
    ),
    schema,
    ...(seen ? await judgeTables(session, seen, server, limits) : []),
    ...judgeHorizon(await session.read((db) => readHorizon(db, session.schema)), limits),
    ...(seen ? [...judgeQueues(seen, limits), ...judgeWorkers(seen, limits)] : []),
    ...judgeEmbedded(folder),
  ];
}

/** Two connections: what the server says of itself, and how it sounds from here. */
function meet(session: Session): Promise<{ server: Server; line: Line }> {
  return withClient(session.pool, (client) =>
    withClient(session.pool, async (other) => {
      const db = engineExecutor(client, { prepare: false });
      const times: number[] = [];
      let [server, skewMs] = [await readServer(db, session.schema), 0];
      for (let n = 0; n < ROUND_TRIPS; n++) {
        const [sent, from] = [Date.now(), performance.now()];
        server = await readServer(db, session.schema);
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

async function judgeSchema(session: Session): Promise<Finding> {
  try {
    await session.checkSchema();
    return ok('schema', `"${session.schema}" is at migration ${MIGRATIONS.length}`);
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
  session: Session,
  seen: Overview,
  server: Server,
  limits: Limits,
): Promise<Finding[]> {
  const findings = [await session.read((db) => judgeRights(db, session.schema))];
  findings.push(...(await drift(session, seen, server)));
  for (const { queue, counts } of seen.queues) {
    const names = session.names(queue.name);
    const vacuum = await session.read((db) => readVacuum(db, names));
    findings.push(...judgeTable(names, counts.size, vacuum, limits));
  }
  return findings;
}

async function drift(session: Session, seen: Overview, server: Server): Promise<Finding[]> {
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
    session.schema,
    await withClient(session.pool, (client) => findDrift(client, session.schema, texts)),
  );
}
