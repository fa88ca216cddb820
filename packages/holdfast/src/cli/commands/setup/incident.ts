/**
 * `holdfast incident`: one bundle to hand on at night. It has what the other commands show, as far as it can be read, and
 * neither payloads nor results, errors of jobs, statements of sessions, addresses or passwords.
 */
import { writeFile } from 'node:fs/promises';
import { limitViews } from '../../../api/act/limits.js';
import { ringOwner } from '../../../api/look/ring.js';
import { auditRows } from '../../../inspect/audit.js';
import type { Finding } from '../../../inspect/doctor/doctor.js';
import { readServer } from '../../../inspect/doctor/server.js';
import { readSettings } from '../../../inspect/doctor/settings.js';
import { explainJob } from '../../../inspect/explain/explain.js';
import { markStopped } from '../../../inspect/explain/stopped.js';
import { listWorkers, stateOf, type WorkerRow } from '../../../inspect/fleet/workers.js';
import { dueTypes } from '../../../inspect/queue/due-types.js';
import { openOverview, queueFigures, whyLocked } from '../../../inspect/queue/overview.js';
import { listQueues } from '../../../inspect/queue/queues.js';
import { readLocks } from '../../../inspect/reading/locks.js';
import { VERSION } from '../../../job/options/version.js';
import type { Executor } from '../../../postgres/queryable.js';
import { readSchedules } from '../../../schedule/list.js';
import type { Call } from '../../command.js';
import { Failure } from '../../failures.js';
import type { Session } from '../../session.js';
import { diagnose } from './doctor.js';

const MOST = 200;

export async function run({ given, session, out }: Call): Promise<void> {
  const bundle = await bundleOf(session);
  const file = given.text('out');
  if (file === undefined) {
    if (out.json) await out.value(bundle);
    else for (const [name, part] of Object.entries(bundle)) await out.part(name, part);
    return;
  }
  const text = `${JSON.stringify(bundle, null, 2)}\n`;
  try {
    await writeFile(file, text, { flag: 'wx', mode: 0o600 });
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'EEXIST') throw error;
    throw new Failure(`${file} is there already; nothing was written.`);
  }
  await (out.json ? out.value({ file }) : out.line(file));
  out.note(
    'It has no payloads, results, errors of jobs, statements or passwords; it has names of queues, types, keys, hosts and roles, and the reasons that people gave.',
  );
}

type Parts = Readonly<Record<string, (session: Session) => Promise<unknown>>>;

const asking = (work: (db: Executor, schema: string) => Promise<unknown>) => (session: Session) =>
  session.read((db) => work(db, session.schema));

const PARTS: Parts = {
  server: asking(readServer),
  settings: asking(readSettings),
  queues: async (session) => {
    const { schema } = session;
    const seen = await session.read(async (db, part) => {
      const all = await openOverview(db, part, schema, { withRates: true });
      return { ...all, ...(await markStopped(db, part, schema, all.queues, ringOwner)) };
    });
    const locked = seen.locked.map((one) => ({ queue: one.queue.name, error: whyLocked(one) }));
    return [...seen.queues.map(queueFigures), ...locked];
  },
  doctor: async (session) => (await diagnose(session)).map(shownFinding),
  oldest: asking(oldestOf),
  workers: asking(async (db, schema) =>
    (await listWorkers(db, schema, { withDead: true })).slice(0, MOST).map(shownWorker),
  ),
  limits: asking((db, schema) => limitViews(db, schema, null)),
  locks: asking(async (db, schema) =>
    (await readLocks(db, schema)).map(({ query: _, client: __, ...lock }) => lock),
  ),
  schedules: asking(async (db, schema) => {
    const rows = await readSchedules(
      db,
      { schema, queue: 'inbox' },
      {},
      { after: null, limit: MOST },
    );
    return rows.map(({ name, queue, type, paused, nextAt, lastAt, skipped, missed }) => {
      return { name, queue, type, paused, nextAt, lastAt, skipped, missed };
    });
  }),
  audit: asking(async (db, schema) => {
    const rows = await auditRows(db, schema, {}, { limit: MOST });
    return rows.map(({ at, act, queue, jobs, actor, role, reason, application }) => {
      return { at, act, queue, jobs, actor, role, reason, application };
    });
  }),
};

/** What cannot be read is named with the reason, and the rest is there. */
async function bundleOf(session: Session): Promise<Readonly<Record<string, unknown>>> {
  const made = { at: new Date().toISOString(), holdfast: VERSION, node: process.version };
  const parts: [string, unknown][] = [['made', { ...made, schema: session.schema }]];
  for (const [name, part] of Object.entries(PARTS)) {
    try {
      parts.push([name, masked(await part(session))]);
    } catch (error) {
      const { code, message } = error as { code?: unknown; message?: unknown };
      parts.push([name, masked({ unreadable: `${String(code ?? '')} ${String(message)}`.trim() })]);
    }
  }
  return Object.fromEntries(parts);
}

function shownFinding({ quotes, text, ...finding }: Finding): object {
  return { ...finding, text: quotes?.without ?? text };
}

/** Its own facts: what the application says of itself in `metadata` may be anything. */
const FACTS = [
  ...['host', 'pid', 'node', 'holdfast', 'migrations', 'concurrency'],
  ...['leaseMs', 'heartbeatMs', 'ttlMs', 'load'],
];

function shownWorker({ metadata, ...worker }: WorkerRow): object {
  const facts = Object.entries((metadata ?? {}) as object).filter(([name]) => FACTS.includes(name));
  return { ...worker, state: stateOf(worker as WorkerRow), ...Object.fromEntries(facts) };
}

/** The oldest due job of each queue that no pause holds back, and why it waits. */
async function oldestOf(db: Executor, schema: string): Promise<object[]> {
  const found: object[] = [];
  for (const { name, ordering } of await listQueues(db, schema)) {
    const [first] = await dueTypes(db, { schema, queue: name }, ordering !== 'none');
    if (!first) continue;
    const { type, oldest: id, dueMs } = first;
    const how = { queues: [name], ringOwner, withoutErrors: true };
    const { code, text, fix, also } = await explainJob(db, schema, id, how);
    found.push({ queue: name, type, id, dueMs, code, text, fix, also });
  }
  return found;
}

/** What a session has said stands in some sentences. It may have anything in it, so the rest of the sentence goes with it. */
const SAID = /(its (?:last )?statement: ).*$/s;

function masked(value: unknown): unknown {
  if (typeof value === 'string') return value.replace(SAID, '$1left out.');
  if (Array.isArray(value)) return value.map(masked);
  if (value instanceof Date || typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, masked(one)]));
}
