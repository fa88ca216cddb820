/**
 * Every verb when something is missing: one line that says what is wrong, that nothing was done, and the
 * fix; never a stack trace, never the password.
 */
import { spawn } from 'node:child_process';
import { beforeAll, describe, expect, test } from 'vitest';
import { COMMANDS } from '../../packages/holdfast/src/cli/commands.js';
import { clearAll, plantJob } from '../support/cli-plant.js';
import { call, MAIN, type Ran } from '../support/cli-run.js';
import { testDatabase } from '../support/database.js';
import { emptyDatabases, onDatabase } from '../support/empty-database.js';

const db = testDatabase();
const makeDatabase = emptyDatabases();
const ID = '0199a1c2-7d3e-7000-8000-000000009182';

/** A call that would be fine on a good database, for each command that needs one. */
const CALLS: Record<string, string[]> = {
  migrate: ['--status'],
  enqueue: ['hello', '{"canary": "canary-7f3a"}'],
  status: [],
  'jobs ls': [],
  'jobs show': [ID],
  'jobs wait': [ID],
  'jobs retry': [ID],
  'jobs discard': [ID, '--yes'],
  'jobs cancel': [ID, '--yes'],
  'jobs update': [ID, '--payload', '{"canary": "canary-7f3a"}'],
  explain: [ID],
  'dead-letters ls': [],
  'dead-letters groups': [],
  'dead-letters retry': ['--all', '--yes'],
  'dead-letters discard': ['--all', '--yes'],
  'queues ls': [],
  'queues create': ['other'],
  'queues set': ['inbox', '--archive-retention', '7d'],
  'queues drop': ['other', '--yes'],
  'queues pause': ['inbox'],
  'queues resume': ['inbox'],
  'workers ls': [],
  'workers drain': ['w1'],
  ring: [],
  top: ['--once'],
  doctor: [],
  incident: [],
  'archive ls': [],
  'archive replay': ['--all', '--yes'],
  'archive prune': ['--older', '1d', '--yes'],
  'audit ls': [],
  'import pg-boss': ['--yes'],
  'import graphile-worker': ['--yes'],
  'import bullmq': ['--from', 'redis://127.0.0.1:1', '--yes'],
  'limits ls': [],
  'limits set': ['step', '--concurrency', '1'],
  'limits reset': ['step'],
  'limits rm': ['step', '--yes'],
  'projections ls': [],
  'projections stops': [],
  'projections resume': ['totals'],
  'projections rebuild': ['totals'],
  'projections skip': ['totals', ID, '--yes'],
  'projections promote': ['totals'],
  'projections rm': ['totals', '--yes'],
  'projections rebase': ['totals'],
  'schedules ls': [],
  'schedules show': ['daily'],
  'schedules pause': ['daily'],
  'schedules resume': ['daily'],
  'schedules run': ['daily'],
  'schedules delete': ['daily', '--yes'],
  'webhooks ls': [],
  'webhooks show': [ID],
  'webhooks set': [ID, '--rate', 'none'],
  'webhooks add': ['acme', 'https://example.com/in'],
  'webhooks disable': [ID],
  'webhooks enable': [ID],
  'webhooks rotate': [ID],
  'webhooks rm': [ID, '--yes'],
  'webhooks test': [ID],
  'webhooks deliveries': [],
  'webhooks resend': [ID, '--yes'],
  'workflows ls': [],
  'workflows show': [ID],
  'workflows history': [ID],
  'workflows signal': [ID, 'approved', '{"canary": "canary-7f3a"}'],
  'workflows cancel': [ID, '--yes'],
  'workflows retry': [ID],
};

/** `dashboard` serves until it is stopped, with or without a database; test/dashboard tries it. */
const needing = (what: string) =>
  COMMANDS.filter(({ needs }) => needs !== 'nothing' && (what === 'database' || needs === what))
    .map((command) => command.words.join(' '))
    .filter((name) => name !== 'dashboard');

test('every command that needs a database is tried here', () => {
  expect(Object.keys(CALLS).sort()).toEqual(needing('database').sort());
});

/** All of them, a few at a time. */
async function callAll(names: readonly string[], url: string | null): Promise<Map<string, Ran>> {
  const results = new Map<string, Ran>();
  const left = [...names];
  const lane = async () => {
    for (let name = left.shift(); name !== undefined; name = left.shift()) {
      const where = url === null ? [] : ['--url', url];
      results.set(name, await call([...name.split(' '), ...(CALLS[name] ?? []), ...where]));
    }
  };
  await Promise.all([lane(), lane(), lane()]);
  return results;
}

function expectOneLine(results: Map<string, Ran>, code: number, message: RegExp): void {
  for (const [name, ran] of results) {
    expect({ name, ...ran }).toMatchObject({ name, code, out: '' });
    expect(ran.err, name).toMatch(message);
    expect(ran.err, name).not.toMatch(/\n\s+at |canary-7f3a|hunter2/);
  }
}

const oneLine = (text: string) => new RegExp(`^holdfast: [^\\n]*${text}[^\\n]*\\n$`);

describe('every verb', () => {
  test('without a database to connect to names --url and DATABASE_URL', async () => {
    const results = await callAll(needing('database'), null);
    expectOneLine(results, 2, /^holdfast: There is no database[^\n]*--url[^\n]*DATABASE_URL/);
  });

  test('says that nobody listens', async () => {
    const results = await callAll(
      needing('database'),
      'postgres://postgres:hunter2@127.0.0.1:1/postgres',
    );
    expectOneLine(results, 1, oneLine('cannot be reached \\(ECONNREFUSED\\)\\. Nothing was done'));
  });

  test('says that the password is wrong', async () => {
    const wrong = new URL(db.url);
    wrong.password = 'hunter2';
    const results = await callAll(needing('database'), wrong.toString());
    expectOneLine(
      results,
      1,
      oneLine('password authentication failed.*28P01.*Nothing was done: check'),
    );
  });

  test('says that the database does not exist', async () => {
    const wrong = new URL(db.url);
    wrong.pathname = '/no_such_database';
    const results = await callAll(['status', 'migrate'], wrong.toString());
    expectOneLine(results, 1, oneLine('3D000.*Nothing was done: create'));
  });

  test('says that the schema is not migrated, and how to do it', async () => {
    const results = await callAll(needing('schema'), await makeDatabase());
    expectOneLine(results, 1, oneLine('Run `holdfast migrate`'));
  });

  // One that is too old cannot be there while there is one migration.
  test('says that the schema is too new', async () => {
    const url = await makeDatabase();
    await onDatabase(url, async (client) => {
      await client.query(`CREATE SCHEMA holdfast; CREATE TABLE holdfast.migrations (id integer PRIMARY KEY,
        name text, breaks_before integer, applied_at timestamptz DEFAULT now());
        INSERT INTO holdfast.migrations SELECT n, 'of a later version', n FROM generate_series(1, 99) AS n`);
    });
    const results = await callAll(['status', 'dead-letters retry'], url);
    expectOneLine(results, 1, oneLine('Migration \\d+ .*upgrade holdfast'));
  });
});

test('a user without rights is told whom to ask', async () => {
  const user = `holdfast_cli_${process.pid}`;
  await db.rows(`CREATE ROLE ${user} LOGIN PASSWORD 'hunter2'`);
  try {
    await db.rows(`GRANT USAGE ON SCHEMA holdfast TO ${user}`);
    await db.rows(`GRANT SELECT ON holdfast.migrations TO ${user}`);
    const url = new URL(db.url);
    [url.username, url.password] = [user, 'hunter2'];
    const ran = await call(['status', '--url', url.toString()]);
    expect(ran.code).toBe(1);
    expect(ran.err).toMatch(oneLine('permission denied.*42501.*Nothing was done: .*roles.sql'));
  } finally {
    await db.rows(`DROP OWNED BY ${user}`);
    await db.rows(`DROP ROLE ${user}`);
  }
});

test('explain does not deny a job that row level security hides', async () => {
  const user = `holdfast_hidden_${process.pid}`;
  const id = await plantJob(db);
  await db.rows(`CREATE ROLE ${user} LOGIN PASSWORD 'hunter2'`);
  try {
    await db.rows(`GRANT USAGE ON SCHEMA holdfast TO ${user}`);
    await db.rows(`GRANT SELECT ON ALL TABLES IN SCHEMA holdfast TO ${user}`);
    await db.rows('ALTER TABLE holdfast.inbox ENABLE ROW LEVEL SECURITY');
    const url = new URL(db.url);
    [url.username, url.password] = [user, 'hunter2'];
    const { out } = await call(['explain', id, '--url', url.toString()]);
    expect(out).toContain('Row level security is on for "inbox" and hides rows');
    expect(out).not.toContain('never enqueued');
  } finally {
    await db.rows('ALTER TABLE holdfast.inbox DISABLE ROW LEVEL SECURITY');
    await db.rows(`DROP OWNED BY ${user}`);
    await db.rows(`DROP ROLE ${user}`);
  }
});

test('a connection limit of the role or the database is not called a full server', async () => {
  const user = `holdfast_limited_${process.pid}`;
  const url = new URL(await makeDatabase());
  const database = url.pathname.slice(1);
  await db.rows(`CREATE ROLE ${user} LOGIN PASSWORD 'hunter2' CONNECTION LIMIT 0`);
  try {
    [url.username, url.password] = [user, 'hunter2'];
    const tried = async () => (await call(['status', '--url', url.toString()])).err;
    const fix = '53300.*Nothing was done: the KIND has a limit of its own.*ALTER';
    expect(await tried()).toMatch(oneLine(`${fix.replace('KIND', 'role')} ROLE "${user}"`));
    await db.rows(`ALTER ROLE ${user} CONNECTION LIMIT -1`);
    await db.rows(`ALTER DATABASE "${database}" CONNECTION LIMIT 0`);
    const end = `${fix.replace('KIND', 'database')} DATABASE "${database}" CONNECTION LIMIT -1;`;
    expect(await tried()).toMatch(oneLine(end));
  } finally {
    await db.rows(`DROP ROLE ${user}`);
  }
});

test('a URL that is none is wrong usage, and is not printed', async () => {
  const ran = await call(['status', '--url', 'postgres://u:hunter2@[bad/x']);
  expect(ran).toMatchObject({ code: 2, out: '' });
  expect(ran.err).toMatch(oneLine('cannot be read. Nothing was done'));
  expect(ran.err).not.toContain('hunter2');
});

describe('a reader that closes the pipe early', () => {
  beforeAll(async () => {
    await clearAll(db);
    await plantJob(db);
    await db.rows(`INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload)
      SELECT 'noop', 'k', 1, '{}' FROM generate_series(1, 20000)`);
  });

  const piped = (words: string) =>
    new Promise<{ code: number | null; out: string; err: string }>((resolve) => {
      const child = spawn('bash', [
        '-c',
        `set -o pipefail; "${process.execPath}" "${MAIN}" ${words} --url "${db.url}" | head -n 1`,
      ]);
      let [out, err] = ['', ''];
      child.stdout.on('data', (chunk) => {
        out += chunk;
      });
      child.stderr.on('data', (chunk) => {
        err += chunk;
      });
      child.on('close', (code) => resolve({ code, out, err }));
    });

  test.each([
    'jobs ls --all --json',
    'jobs ls --all',
    'top --every 100ms',
    'top --json --every 100ms',
  ])('%s ends quietly', async (words) => {
    const ran = await piped(words);
    expect(ran.out.trim().split('\n')).toHaveLength(1);
    expect(ran).toMatchObject({ code: 0, err: '' });
  });
});
