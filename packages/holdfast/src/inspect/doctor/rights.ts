/** May this user do everywhere what it may do with `inbox`: work, operate, look or enqueue? */
import type { Executor } from '../../postgres/queryable.js';
import { grantTexts, type Rights, type Role, rightsOf, tableText } from '../reading/rights.js';
import { type Finding, ok, problem } from './doctor.js';

/** The one who may do most comes first. */
const ROLES: readonly Role[] = ['worker', 'operator', 'viewer', 'producer'];

const MAY: Readonly<Record<Role, string>> = {
  worker: 'may claim, settle and do maintenance',
  operator: 'may look, and retry, discard, cancel, update and pause; it cannot work',
  viewer: 'may look, and change nothing; it can neither work nor enqueue',
  producer: 'may enqueue, and look at no job',
};

const WHY: Readonly<Record<Role, string>> = {
  worker: 'A worker that connects as this user fails when it claims, settles or does maintenance.',
  operator: 'What a human does with the jobs there fails.',
  viewer: 'Status, metrics and the doctor fail there, or leave it out.',
  producer: 'Enqueues fail there.',
};

/** More statements than that are run from the file. */
const MAX_GRANTS = 5;

export async function judgeRights(db: Executor, schema: string): Promise<Finding> {
  for (const role of ROLES) {
    const rights = await rightsOf(db, schema, role);
    if (rights.missing.some(({ queue, table }) => queue === 'inbox' || table === '')) continue;
    if (rights.missing.length === 0) return ok('rights', `${rights.user} ${MAY[role]}`);
    return lacking(schema, role, rights);
  }
  return lacking(schema, 'worker', await rightsOf(db, schema, 'worker'));
}

function lacking(schema: string, role: Role, rights: Rights): Finding {
  const list = rights.missing.map((one) => `${one.rights.join(', ')} on ${tableText(schema, one)}`);
  const more = list.length > MAX_GRANTS ? [`and more on ${list.length - MAX_GRANTS} others`] : [];
  const text = `User ${rights.user} lacks ${[...list.slice(0, MAX_GRANTS), ...more].join('; ')}.`;
  return problem('rights', text, WHY[role], grantFix(schema, role, rights));
}

export function grantFix(schema: string, role: Role, rights: Rights): string {
  return rights.missing.length <= MAX_GRANTS
    ? grantTexts(schema, rights).join(' ')
    : `Run node_modules/holdfast/dist/roles.sql as the owner of the schema, then GRANT holdfast_${role} TO ${rights.user};`;
}
