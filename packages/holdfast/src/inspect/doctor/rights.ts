/**
 * May every role that works here do what it is meant to do? A role is meant for what its group of docs/roles.sql says, else
 * for what its sessions say, else for what it may do almost everything of: one right that was revoked makes no other role of it.
 */
import type { Executor } from '../../postgres/queryable.js';
import { deniedIn } from '../fleet/reports.js';
import type { WorkerRow } from '../fleet/workers.js';
import {
  grantTexts,
  isNeeded,
  type MissingGrant,
  type Rights,
  type Role,
  rightsOf,
  rightsOfAll,
  tableText,
} from '../reading/rights.js';
import { firstFew } from '../reading/words.js';
import { askRoles, roleOf, servedBy, type WorkingRole, workingRoles } from './cause/roles.js';
import { type Finding, ok, problem } from './doctor.js';

const CHECK = 'rights';

/** The one who may do most comes first. */
const ROLES: readonly Role[] = ['worker', 'operator', 'viewer', 'producer'];

const MAY: Readonly<Record<Role, string>> = {
  worker: 'may claim, settle and do maintenance',
  operator: 'may look, and retry, discard, cancel, update and pause; it cannot work',
  viewer: 'may look, and change nothing; it can neither work nor enqueue',
  producer: 'may enqueue, and look at no job',
};

const WHY: Readonly<Record<Role, string>> = {
  worker: 'A worker that connects like this fails when it claims, settles or does maintenance.',
  operator: 'What a human does with the jobs there fails.',
  viewer: 'Status, metrics and the doctor fail there, or leave it out.',
  producer: 'Enqueues fail there.',
};

/** More are counted in the text. */
const NAMED_GRANTS = 5;
/** Whoever holds fewer of a thousand rights is given the group. */
const SOME = 650;
const NAMED = 3;
/** Whoever holds so many of a thousand rights that a role needs is meant to be one. */
const MEANT = 900;

/** `workers`: those whose roles are asked about, too. */
export async function judgeRights(
  db: Executor,
  schema: string,
  workers: readonly WorkerRow[] = [],
): Promise<Finding[]> {
  // Also those that are silent: without a right they may not even be able to send a heartbeat.
  const live = workers.filter(({ status }) => status !== 'dead');
  const said = [...new Set(live.map(roleOf))].filter((role) => role !== null);
  const rows = await askRoles(db, schema, schema, said);
  const roles = workingRoles(rows, live);
  const meant = await withKinds(db, schema, roles);
  const known = meant.filter(({ kind }) => kind !== null) as Meant[];
  const judged = await rightsOfAll(db, schema, known);
  const findings = judged.flatMap(({ of, rights }) => lacking(schema, of, rights) ?? []);
  const own = judged.find(({ of }) => of.own);
  const found = findings.map(({ finding }) => finding);
  if (!findings.some(({ of }) => of.own)) {
    found.unshift(
      own
        ? ok(CHECK, `${rows.find((row) => row.own)?.role} ${MAY[own.of.kind]}`)
        : await judgeOwn(db, schema),
    );
  }
  return [...found, ...judgeDenied(live, found)];
}

/** What workers were refused, where no missing grant that was found explains it. */
function judgeDenied(live: readonly WorkerRow[], found: readonly Finding[]): Finding[] {
  const named = found.map(({ text }) => text).join('\n');
  const said = new Map<string, { what: string; workers: string[]; role: string | null }>();
  for (const worker of live) {
    for (const one of deniedIn(worker)) {
      const object = /(\w+)\W*$/.exec(one.said)?.[1];
      if (object !== undefined && new RegExp(`\\b${object}\\b`).test(named)) continue;
      // What was compared is known, and what a worker was refused before it was granted is over.
      if (
        object !== undefined &&
        roleOf(worker) !== null &&
        isNeeded('worker', object, servedBy(worker))
      )
        continue;
      const before = said.get(one.said) ?? { what: one.what, workers: [], role: roleOf(worker) };
      said.set(one.said, { ...before, workers: [...before.workers, worker.id] });
    }
  }
  return [...said].map(([words, { what, workers, role }]) =>
    problem(
      CHECK,
      `The database refuses worker ${firstFew(workers, NAMED, 'worker')}${role === null ? '' : ` (user ${role})`}: ${words} (${what}).`,
      WHY.worker,
      'Run node_modules/holdfast/dist/roles.sql as the owner of the schema; what is not in it, grant by hand.',
    ),
  );
}

type Meant = WorkingRole & { readonly kind: Role };

async function withKinds(db: Executor, schema: string, roles: readonly WorkingRole[]) {
  const unknown = roles.filter(({ kind }) => kind === null);
  const asked = unknown.flatMap((one) => ROLES.map((kind) => ({ ...one, kind })));
  const shares = await rightsOfAll(db, schema, asked);
  return roles.map((one) => {
    if (one.kind !== null) return one;
    const fits = ({ of, rights }: (typeof shares)[number]) =>
      of.role === one.role && rights.share >= MEANT;
    return { ...one, kind: shares.find(fits)?.of.kind ?? null };
  });
}

/** A user of whom nothing says what it is meant for, by what it may do with the first queue. */
async function judgeOwn(db: Executor, schema: string): Promise<Finding> {
  for (const role of ROLES) {
    const rights = await rightsOf(db, schema, role);
    if (rights.missing.some(({ queue, table }) => queue === 'inbox' || table === '')) continue;
    if (rights.missing.length === 0) return ok(CHECK, `${rights.user} ${MAY[role]}`);
    return problemOf(schema, role, rights, `User ${rights.user}`);
  }
  const rights = await rightsOf(db, schema, 'worker');
  return problemOf(schema, 'worker', rights, `User ${rights.user}`);
}

/** Null: it lacks nothing that it needs. A queue that is kept from it altogether is none of its own. */
function lacking(schema: string, of: Meant, rights: Rights) {
  const needs = ({ queue }: MissingGrant) =>
    queue === null || !rights.kept.includes(queue) || of.serves.includes(queue);
  const missing = rights.missing.filter(needs);
  if (missing.length === 0) return null;
  // Who is connected and may not enter the schema works in another one.
  if (!of.own && of.workers.length === 0 && missing.some(({ table }) => table === '')) return null;
  const who = `${of.group ? 'Role' : 'User'} ${rights.user}${membersOf(of)}`;
  return { of, finding: problemOf(schema, of.kind, { ...rights, missing }, who) };
}

function membersOf({ users, workers }: WorkingRole): string {
  const parts = [
    ...(users.length > 0 ? [`user ${firstFew(users, NAMED, 'user')}`] : []),
    ...(workers.length > 0 ? [`worker ${firstFew(workers, NAMED, 'worker')}`] : []),
  ];
  return parts.length > 0 ? ` (${parts.join('; ')})` : '';
}

function problemOf(schema: string, role: Role, rights: Rights, who: string): Finding {
  const list = rights.missing.map((one) => `${one.rights.join(', ')} on ${tableText(schema, one)}`);
  const rest = list.length - NAMED_GRANTS;
  const more = rest > 0 ? [`and more on ${rest} others`] : [];
  const text = `${who} lacks ${[...list.slice(0, NAMED_GRANTS), ...more].join('; ')}.`;
  return problem(CHECK, text, WHY[role], grantFix(schema, role, rights, '\n'));
}

/** `between`: what can be pasted. */
export function grantFix(schema: string, role: Role, rights: Rights, between = ' '): string {
  if (rights.share >= SOME) return grantTexts(schema, rights).join(between);
  return [
    'Run node_modules/holdfast/dist/roles.sql as the owner of the schema, then',
    `GRANT holdfast_${role} TO ${rights.user};`,
  ].join(between);
}
