/** The `holdfast` command as a user runs it: the compiled program, its output, its exit codes. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';

const MAIN = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url));

interface Ran {
  code: number | null;
  out: string;
  err: string;
}

function run(args: string[], env: Record<string, string> = {}): Promise<Ran> {
  const child = spawn(process.execPath, [MAIN, ...args], {
    env: { PATH: process.env.PATH ?? '', ...env },
  });
  const ran: Ran = { code: null, out: '', err: '' };
  child.stdout.on('data', (chunk) => {
    ran.out += chunk;
  });
  child.stderr.on('data', (chunk) => {
    ran.err += chunk;
  });
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve({ ...ran, code }));
  });
}

const name = `holdfast_cli_${process.pid}_${Date.now()}`;
let url: string;
async function onServer(text: string): Promise<void> {
  const client = new pg.Client({ connectionString: inject('serverUrl') });
  await client.connect();
  await client.query(text);
  await client.end();
}
beforeAll(async () => {
  const address = new URL(inject('serverUrl'));
  address.pathname = `/${name}`;
  url = address.toString();
  await onServer(`CREATE DATABASE ${name}`);
});
afterAll(() => onServer(`DROP DATABASE ${name} WITH (FORCE)`));

describe('holdfast migrate', () => {
  test('tells what is pending and prints what would run, without doing it', async () => {
    const status = await run(['migrate', '--status', '--url', url]);
    expect(status).toMatchObject({ code: 0, out: '0001 engine pending\n' });
    const sql = await run(['migrate', '--sql'], { DATABASE_URL: url });
    expect(sql.code).toBe(0);
    expect(sql.out).toMatch(/^BEGIN[^;]*;[\s\S]*CREATE TABLE holdfast\.inbox [\s\S]*COMMIT;\n$/);
    expect((await run(['migrate', '--status', '--url', url])).out).toContain('pending');
  });

  test('applies, and does nothing the second time', async () => {
    const first = await run(['migrate', '--url', url]);
    expect(first.code).toBe(0);
    expect(first.out).toMatch(/^0001 engine applied \d{4}-/);
    expect(first.err).toContain('Applied 1 migration');
    const second = await run(['migrate', '--url', url]);
    expect(second).toMatchObject({ code: 0, out: first.out });
    expect(second.err).toContain('Nothing to do');
    expect((await run(['migrate', '--sql', '--url', url])).out).toBe('');
  });

  test('makes a schema of another name, and refuses a name that carries SQL', async () => {
    expect((await run(['migrate', '--url', url, '--schema', 'my_app'])).code).toBe(0);
    const bad = await run([
      'migrate',
      '--url',
      url,
      '--schema',
      'x"; DROP SCHEMA holdfast CASCADE; --',
    ]);
    expect(bad.code).toBe(2);
    expect(bad.err).toContain('schema name');
  });

  test('survives a reader that closes the pipe early', async () => {
    const child = spawn('sh', [
      '-c',
      `"${process.execPath}" "${MAIN}" migrate --sql --schema fresh --url "${url}" | head -n 1`,
    ]);
    let err = '';
    child.stderr.on('data', (chunk) => {
      err += chunk;
    });
    await new Promise((resolve) => child.on('close', resolve));
    expect(err).not.toMatch(/EPIPE|Error/);
  });
});

describe('holdfast queues create', () => {
  test('makes a queue once and says so the second time', async () => {
    const first = await run(['queues', 'create', 'outbox', '--url', url]);
    expect(first).toMatchObject({ code: 0, out: 'outbox\n', err: 'Queue "outbox" was created.\n' });
    const second = await run(['queues', 'create', 'outbox', '--url', url]);
    expect(second).toMatchObject({
      code: 0,
      err: 'Queue "outbox" exists already; nothing was done.\n',
    });
  });

  test.each([
    ['queues'],
    ['queues', 'create'],
    ['queues', 'drop', 'x'],
    ['queues', 'create', 'Bad-Name'],
  ])('refuses %s %s %s with exit code 2', async (...words) => {
    const ran = await run([...words, '--url', url]);
    expect(ran.code).toBe(2);
    expect(ran.err).toMatch(/^holdfast: /);
    expect(ran.out).toBe('');
  });
});

describe('holdfast', () => {
  test('without a command, with an unknown one and with an unknown flag says how it is used', async () => {
    expect(await run([])).toMatchObject({ code: 2 });
    const typo = await run(['migarte', '--url', url]);
    expect(typo.code).toBe(2);
    expect(typo.err).toContain('Did you mean "migrate"?');
    expect(await run(['migrate', '--frobnicate', '--url', url])).toMatchObject({ code: 2 });
    expect(await run(['--help'])).toMatchObject({ code: 0 });
    expect((await run(['--version'])).out).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  test('without a database to connect to names DATABASE_URL', async () => {
    const ran = await run(['migrate']);
    expect(ran.code).toBe(2);
    expect(ran.err).toContain('DATABASE_URL');
  });

  test('says in one line that nobody listens, and that the password is wrong', async () => {
    const nobody = await run(['migrate', '--url', 'postgres://postgres@127.0.0.1:1/postgres']);
    expect(nobody.code).toBe(1);
    expect(nobody.err).toMatch(/^holdfast: The database cannot be reached.*\n$/);
    const wrong = new URL(url);
    wrong.password = 'wrong';
    const refused = await run(['migrate', '--url', wrong.toString()]);
    expect(refused.code).toBe(1);
    expect(refused.err).toMatch(/password authentication failed.*28P01/);
  });
});
