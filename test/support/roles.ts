/** The roles of docs/roles.sql, and one user of each who logs in; all are gone when the file is done. */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import pg from 'pg';
import { afterAll, beforeAll } from 'vitest';
import { type Holdfast, holdfast } from '../../packages/holdfast/src/index.js';
import type { TestGround } from './database.js';
import { asAdmin } from './empty-database.js';
import { quietLogger } from './logger.js';

export const ROLES = ['producer', 'worker', 'viewer', 'operator'] as const;
export type RoleName = (typeof ROLES)[number];
/** Without a user of its own. */
const BESIDE = ['sql_worker', 'declarer', 'pruner'] as const;
type Beside = (typeof BESIDE)[number];

export interface Member {
  readonly user: string;
  readonly url: string;
  readonly pool: pg.Pool;
  readonly hf: Holdfast;
}

export interface Roles {
  readonly members: Readonly<Record<RoleName, Member>>;
  /** The file, with the names of these roles. */
  readonly sql: string;
  readonly role: (name: RoleName | Beside) => string;
}

/** Roles belong to the server: two files that run at once need names of their own, by `prefix`. */
export function testRoles(
  db: TestGround,
  {
    prefix = 'holdfast',
    before = async () => {},
  }: { prefix?: string; before?: () => Promise<void> } = {},
): Roles {
  const tag = randomBytes(4).toString('hex');
  const file = readFileSync(new URL('../../docs/roles.sql', import.meta.url), 'utf8');
  const sql = file.replaceAll(
    /\bholdfast_(?=producer|worker|viewer|operator|sql_worker|declarer|pruner)/g,
    `${prefix}_`,
  );
  const members = {} as Record<RoleName, Member>;
  const role = (name: RoleName | Beside) => `${prefix}_${name}`;
  beforeAll(async () => {
    await before();
    await db.rows(sql);
    await db.rows(sql);
    for (const name of ROLES) {
      const user = `${prefix}_test_${name}_${tag}`;
      await db.rows(`CREATE ROLE ${user} LOGIN PASSWORD 'secret' IN ROLE ${role(name)}`);
      const url = new URL(db.url);
      [url.username, url.password] = [user, 'secret'];
      const connectionString = url.toString();
      const pool = new pg.Pool({ connectionString, max: 4 });
      pool.on('error', () => undefined);
      const hf = holdfast({ connectionString, logger: quietLogger });
      members[name] = { user, url: connectionString, pool, hf };
    }
  });
  afterAll(async () => {
    for (const { user, pool, hf } of Object.values(members)) {
      await hf.close();
      await pool.end();
      await db.rows(`DROP OWNED BY ${user}`);
      await asAdmin((client) => client.query(`DROP ROLE ${user}`));
    }
    // They go when no other database has granted them anything.
    for (const name of [...ROLES, ...BESIDE]) {
      await db.rows(`DROP OWNED BY ${role(name)}`);
      await asAdmin((client) => client.query(`DROP ROLE ${role(name)}`)).catch(() => undefined);
    }
  });
  return { members, sql, role };
}
