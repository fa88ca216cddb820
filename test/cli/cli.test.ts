/** The `holdfast` command: its help, its usage errors, migrations and queues. */
import { spawn } from 'node:child_process';
import { beforeAll, describe, expect, test } from 'vitest';
import { MIGRATIONS } from '../../packages/holdfast/src/schema/migrations.js';
import { call, MAIN, run, values } from '../support/cli-run.js';
import { emptyDatabases } from '../support/empty-database.js';

const makeDatabase = emptyDatabases();
let url: string;
beforeAll(async () => {
  url = await makeDatabase();
});

describe('holdfast migrate', () => {
  test('tells what is pending and prints what would run, without doing it', async () => {
    const status = await call(['migrate', '--status', '--url', url]);
    expect(status.code).toBe(0);
    expect(status.out).toBe(
      MIGRATIONS.map(({ id, name }) => `${String(id).padStart(4, '0')} ${name} pending\n`).join(''),
    );
    const sql = await call(['migrate', '--sql'], { env: { DATABASE_URL: url } });
    expect(sql.code).toBe(0);
    expect(sql.out).toMatch(/^BEGIN[^;]*;[\s\S]*CREATE TABLE holdfast\.inbox [\s\S]*COMMIT;\n$/);
    expect((await call(['migrate', '--status', '--url', url])).out).toContain('pending');
  });

  test('applies, and does nothing the second time', async () => {
    const first = await run(['migrate', '--url', url]);
    expect(first.code).toBe(0);
    expect(first.out).toMatch(/^0001 engine applied \d{4}-/);
    expect(first.err).toContain(`Applied ${MIGRATIONS.length} migration(s)`);
    const second = await call(['migrate', '--url', url]);
    expect(second).toMatchObject({ code: 0, out: first.out });
    expect(second.err).toContain('Nothing to do');
    expect((await call(['migrate', '--sql', '--url', url])).out).toBe('');
    const json = values((await call(['migrate', '--status', '--json', '--url', url])).out);
    expect(json[0]).toMatchObject({ id: 1, name: 'engine', known: true });
  });

  test('makes a schema of another name, and refuses a name that carries SQL', async () => {
    expect((await call(['migrate', '--url', url, '--schema', 'my_app'])).code).toBe(0);
    expect(
      (await call(['status', '--url', url], { env: { HOLDFAST_SCHEMA: 'my_app' } })).code,
    ).toBe(0);
    const name = 'x"; DROP SCHEMA holdfast CASCADE; --';
    const bad = await call(['migrate', '--url', url, '--schema', name]);
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
    const first = await call(['queues', 'create', 'outbox', '--url', url]);
    expect(first).toMatchObject({ code: 0, out: 'outbox\n', err: 'Queue "outbox" was created.\n' });
    const second = await call(['queues', 'create', 'outbox', '--url', url]);
    expect(second).toMatchObject({
      code: 0,
      err: 'Queue "outbox" exists already; nothing was done.\n',
    });
  });

  test('makes one that is read by key', async () => {
    const words = ['create', 'strict', '--ordering', 'key', '--dead-letters', 'hold'];
    const made = await call(['queues', ...words, '--url', url]);
    expect(made.code).toBe(0);
    const listed = values((await call(['queues', 'ls', '--json', '--url', url])).out);
    expect(listed.find((queue) => queue.queue === 'strict')).toMatchObject({
      ordering: 'key_strict',
    });
    const wrong = await call(['queues', 'create', 'other', '--ordering', 'random', '--url', url]);
    expect(wrong.code).toBe(2);
    expect(wrong.err).toContain("'none' or 'key'");
  });

  test.each([['queues'], ['queues create'], ['queues drop x'], ['queues create Bad-Name']])(
    'refuses %s with exit code 2',
    async (words) => {
      const ran = await call([...words.split(' '), '--url', url]);
      expect(ran.code).toBe(2);
      expect(ran.err).toMatch(/^holdfast: /);
      expect(ran.out).toBe('');
    },
  );
});

describe('holdfast', () => {
  test('without a command says so; --help and --version tell', async () => {
    expect(await run([])).toMatchObject({ code: 2, out: '' });
    const help = await call(['--help']);
    expect(help).toMatchObject({ code: 0, err: '' });
    expect(help.out).toContain('jobs retry [ID...]');
    expect((await run(['--version'])).out).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  test('has help for each command and each group of commands', async () => {
    const group = await call(['jobs', '--help']);
    expect(group.out).toMatch(
      /^Usage: holdfast jobs ls \| show \| wait \| retry \| discard \| cancel \| update\n/,
    );
    const one = await call(['jobs', 'retry', '-h']);
    expect(one.code).toBe(0);
    expect(one.out).toContain('Usage: holdfast jobs retry [ID...] [options]');
    expect(one.out).toContain('--error TEXT');
    expect((await call(['frobnicate', '--help'])).code).toBe(2);
  });

  test.each(['', 'jobs', 'jobs retry', 'enqueue'])('"help %s" is "%s --help"', async (words) => {
    const list = words.split(' ').filter(Boolean);
    const help = await call([...list, '--help']);
    expect(help.code).toBe(0);
    expect(await call(['help', ...list])).toEqual(help);
    expect((await call(['help', 'frobnicate'])).code).toBe(2);
  });

  test.each([
    ['migarte', 'Did you mean "migrate"?'],
    ['jbos ls', 'Did you mean "jobs"?'],
    ['jobs lst', 'Did you mean "ls"?'],
    ['jobs', 'Say what to do with jobs: ls, show'],
    ['stat', 'Did you mean "status"?'],
    ['jobs ls --typ x', 'Did you mean "--type"?'],
    ['hlep', 'Did you mean "help"?'],
    ['wait --timeout 1s', 'There is no command "wait". Did you mean "jobs wait"?'],
    ['schedules set nightly --cron x', 'There is no command "schedules set"'],
    ['migrate --frobnicate', 'has no option --frobnicate'],
    ['jobs ls --type', '--type needs a value'],
    ['jobs ls --json=x', '--json takes no value'],
    ['jobs ls --limit none', '--limit must be a whole number'],
    ['jobs ls --limit -1', '--limit must be a whole number of at least 1, not "-1"'],
    ['queues set inbox --archive-retention -1d', 'must be a duration'],
    ['queues set inbox --max-pending -5', '"-5"'],
    ['jobs ls --older yesterday', '--older must be a duration'],
    ['jobs ls --status dead', 'There is no status "dead"'],
    ['jobs ls --status pending,completed', 'the queue or the archive'],
    ['jobs ls --queue outbix', 'Did you mean "outbox"?'],
    ['jobs ls extra', 'takes no argument'],
    ['jobs show', 'Write: holdfast jobs show ID'],
    ['jobs show 17', '"17" is not the id of a job'],
    ['jobs retry', 'Say which'],
    ['jobs retry 17', '"17" is not the id of a job'],
    ['jobs cancel --status dead_letter', 'cancel moves jobs that are pending or processing'],
    ['explain', 'Write: holdfast explain ID'],
    ['enqueue', 'Write: holdfast enqueue TYPE'],
    ['enqueue 9x', 'a job type must start with a letter'],
    ['enqueue hello {', 'The payload is not JSON'],
    ['enqueue hello {} --header x', 'NAME=VALUE'],
    ['queues pause nothing', 'There is no queue "nothing"'],
    ['workers drain', 'Write: holdfast workers drain ID'],
    ['archive prune', 'Write: holdfast archive prune --older AGE'],
    ['top --every 1', '--every'],
    ['doctor now', 'takes no argument'],
    ['init a b', 'Write: holdfast init [FOLDER]'],
  ])(
    '%s is wrong usage: exit code 2, and the message says what was meant',
    async (words, message) => {
      const ran = await call([...words.split(' '), '--url', url]);
      expect(ran.err).toContain(message);
      expect(ran).toMatchObject({ code: 2, out: '' });
    },
  );

  test('options of every command may come first', async () => {
    expect((await call(['--url', url, '--json', 'queues', 'ls'])).code).toBe(0);
  });
});
