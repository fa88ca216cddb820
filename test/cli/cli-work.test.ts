/** From an empty folder to a job that ran: init, migrate, enqueue, work. And what `work` says when it cannot. */
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { initFiles } from '../../packages/holdfast/src/cli/commands/setup/init.js';
import { holdfast } from '../../packages/holdfast/src/index.js';
import { VERSION } from '../../packages/holdfast/src/job/options/version.js';
import { clearAll } from '../support/cli-plant.js';
import { call, run, runInTurn, start, values } from '../support/cli-run.js';
import { testDatabase } from '../support/database.js';
import { emptyDatabases } from '../support/empty-database.js';
import { quietLogger } from '../support/logger.js';
import { until } from '../support/until.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const db = testDatabase();
const makeDatabase = emptyDatabases();
beforeEach(() => clearAll(db));
const STRIPS = Boolean((process.features as { typescript?: unknown }).typescript);

/** A folder of a user who has installed holdfast. */
function project(): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-cli-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(join(ROOT, 'packages/holdfast'), join(folder, 'node_modules', 'holdfast'));
  return folder;
}

describe('init', () => {
  test.each(['commonjs', 'module'])(
    'writes files that run as they are where package.json says "%s": migrate, enqueue and work go on from there',
    async (type) => {
      const [cwd, url] = [project(), await makeDatabase()];
      writeFileSync(join(cwd, 'package.json'), JSON.stringify({ type }));
      const env = { DATABASE_URL: url };
      const init = await run(['init'], { cwd });
      const end = STRIPS ? 'mts' : 'mjs';
      expect(init).toMatchObject({ code: 0, out: `holdfast.config.${end}\njobs/hello.${end}\n` });
      expect((await call(['migrate'], { env })).code).toBe(0);
      const { out } = await call(['enqueue', 'hello', '{"name": "world"}'], { env });
      const id = out.trim();
      const working = start(['work'], { cwd, env });
      await until('the handler has run', () => working.seen.out.includes('Hello, world!'));
      expect(working.seen.out).toContain(`(job ${id}, attempt 1)`);
      await until('the job is completed', async () => {
        const [job] = values((await call(['jobs', 'show', id, '--json'], { env })).out);
        return job?.status === 'completed';
      });
      working.child.kill('SIGTERM');
      const ran = await working.ended;
      expect(ran.code).toBe(0);
      // A slow machine may add a warning.
      expect(values(ran.err).filter(({ level }) => level === 'info')).toMatchObject([
        { msg: 'worker started', queues: ['inbox'] },
        { msg: 'worker stopping' },
        { msg: 'worker stopped', completed: 1 },
      ]);
    },
  );

  test('never overwrites: it names what is there and writes nothing', async () => {
    const cwd = project();
    writeFileSync(join(cwd, 'holdfast.config.js'), '// mine');
    const ran = await run(['init'], { cwd });
    expect(ran).toMatchObject({ code: 1, out: '' });
    expect(ran.err).toContain('holdfast.config.js exists already; nothing was written.');
    expect(readdirSync(cwd).sort()).toEqual(['holdfast.config.js', 'node_modules']);
    expect(readFileSync(join(cwd, 'holdfast.config.js'), 'utf8')).toBe('// mine');
    const elsewhere = await run(['init', 'sub', '--js', '--json'], { cwd });
    expect(values(elsewhere.out)).toEqual([
      { path: 'holdfast.config.mjs' },
      { path: 'jobs/hello.mjs' },
    ]);
    expect(readdirSync(join(cwd, 'sub')).sort()).toEqual(['holdfast.config.mjs', 'jobs']);
  });

  test('the TypeScript of it is the JavaScript with types', () => {
    const strip = (text: string) =>
      text
        .replace(/^import type .*\n/m, '')
        .replace('type HandlerContext, ', '')
        .replace(/: (Worker|HandlerContext<[^)]*>)(?=\))/g, '')
        .replace(/(?<=job)<[^(]*>(?=\()/, '')
        .replaceAll('.mts', '.mjs');
    const [ts, mjs] = [initFiles('mts'), initFiles('mjs')];
    expect(ts.map(({ text }) => strip(text))).toEqual(mjs.map(({ text }) => text));
  });
});

describe('enqueue', () => {
  const env = () => ({ DATABASE_URL: db.url });
  test('prints the id; every option reaches the job', async () => {
    const words = [
      'enqueue',
      'ship',
      '{"a": 1}',
      '--partition-key',
      'order:1',
      '--delay',
      '1h',
      '--priority',
      '1',
    ];
    const more = [
      '--max-attempts',
      '7',
      '--job-version',
      '3',
      '--header',
      'trace=x=y',
      '--idempotency-key',
      'k1',
    ];
    const ran = await call([...words, ...more], { env: env() });
    expect(ran).toMatchObject({ code: 0, err: '' });
    const job = await db.hf.job(ran.out.trim());
    expect(job).toMatchObject({
      type: 'ship',
      partitionKey: 'order:1',
      priority: 1,
      maxAttempts: 7,
      version: 3,
      idempotencyKey: 'k1',
    });
    expect(job?.headers).toEqual({ trace: 'x=y' });
    expect(job?.runAt?.getTime()).toBeGreaterThan(Date.now() + 3_000_000);
    const again = await call([...words, ...more, '--json'], { env: env() });
    expect(values(again.out)).toMatchObject([{ id: job?.id, deduplicated: true }]);
    expect(again.err).toContain('nothing was added');
    const other = await call(['enqueue', 'ship', '{"a": 2}', '--idempotency-key', 'k1'], {
      env: env(),
    });
    expect(other.code).toBe(1);
  });

  test('is due at the time that --run-at names, on the database that PGHOST and its like name', async () => {
    const { hostname, port, username, password, pathname } = new URL(db.url);
    const place = {
      ...{ PGHOST: hostname, PGPORT: port, PGUSER: username, PGPASSWORD: password },
      PGDATABASE: pathname.slice(1),
    };
    const at = '2031-01-31T09:00:00.000Z';
    const ran = await run(['enqueue', 'ship', '--run-at', at], { env: place });
    expect(ran).toMatchObject({ code: 0, err: '' });
    expect((await db.hf.job(ran.out.trim()))?.runAt?.toISOString()).toBe(at);
    for (const wrong of [
      ['--run-at', 'soon'],
      ['--run-at', at, '--delay', '1h'],
    ])
      expect((await call(['enqueue', 'ship', ...wrong], { env: env() })).code).toBe(2);
    for (const [name, value] of Object.entries(place)) vi.stubEnv(name, value);
    vi.stubEnv('DATABASE_URL', '');
    onTestFinished(() => void vi.unstubAllEnvs());
    const hf = holdfast({ logger: quietLogger });
    onTestFinished(() => hf.close());
    expect(await hf.job(ran.out.trim())).toMatchObject({ type: 'ship' });
  });

  test('takes a payload from stdin, and tells nobody what a broken one said', async () => {
    const ran = await run(['enqueue', 'ship', '-'], { env: env(), stdin: '{"from": "stdin"}' });
    const job = await db.hf.job(ran.out.trim());
    expect(job?.payload).toEqual({ from: 'stdin' });
    const broken = await run(['enqueue', 'ship', '-'], { env: env(), stdin: '{"canary-7f3a"' });
    expect(broken.code).toBe(2);
    expect(broken.err).not.toContain('canary');
  });
});

describe('work says in one line why it did not start', () => {
  const CONFIG = 'export default { handlers() {} };';
  const cases: [string, Record<string, string>, string[], RegExp][] = [
    [
      'there is no configuration',
      {},
      [],
      /There is no holdfast\.config\.mjs .* Run `holdfast init`/,
    ],
    [
      'the file named is not there',
      {},
      ['--config', 'x.mjs'],
      /There is no file x\.mjs; nothing was started/,
    ],
    [
      'it has no handlers',
      { 'holdfast.config.mjs': 'export default {};' },
      [],
      /no default export with a function `handlers\(worker\)`/,
    ],
    [
      'it throws',
      { 'holdfast.config.mjs': 'throw new Error("broken config");' },
      [],
      /could not be loaded: broken config\. Nothing was started/,
    ],
    [
      'it does not parse',
      { 'holdfast.config.mjs': 'export default {' },
      [],
      /could not be loaded: Unexpected end of input/,
    ],
    [
      'it needs a package that is not installed',
      { 'holdfast.config.mjs': 'import "nothing-of-the-kind";' },
      [],
      /npm install nothing-of-the-kind/,
    ],
    ['it handles nothing', { 'holdfast.config.mjs': CONFIG }, [], /handler/],
    ...(STRIPS
      ? []
      : ([
          [
            'it is TypeScript and this Node cannot',
            { 'holdfast.config.ts': CONFIG },
            [],
            /is TypeScript, which Node .* Compile it .* Node 22\.18 or later/,
          ],
          [
            'it imports TypeScript and this Node cannot',
            { 'holdfast.config.mjs': `import './x.ts'; ${CONFIG}`, 'x.ts': '' },
            [],
            /is TypeScript/,
          ],
        ] as [string, Record<string, string>, string[], RegExp][])),
  ];
  test('because of its configuration', async () => {
    const commands = cases.map(([, files, words]) => {
      const cwd = project();
      for (const [name, text] of Object.entries(files)) writeFileSync(join(cwd, name), text);
      return { args: ['work', ...words], cwd };
    });
    const ran = await runInTurn(commands, { DATABASE_URL: db.url });
    for (const [n, [what, , , message]] of cases.entries()) {
      expect(ran[n], what).toMatchObject({ code: 1, out: '', err: expect.stringMatching(message) });
      expect(ran[n]?.err.trimEnd().split('\n'), what).toHaveLength(1);
    }
  });

  test('because there is no database, or no schema', async () => {
    const cwd = project();
    writeFileSync(
      join(cwd, 'holdfast.config.mjs'),
      `import { job } from 'holdfast'; export default { handlers(w) { w.handle(job('x'), () => {}); } };`,
    );
    expect(await run(['work'], { cwd })).toMatchObject({
      code: 2,
      err: expect.stringContaining('DATABASE_URL'),
    });
    const empty = await run(['work'], { cwd, env: { DATABASE_URL: await makeDatabase() } });
    expect(empty.code).toBe(1);
    expect(empty.err).toContain('Run `holdfast migrate`');
  });
});

test('work takes database, schema and options from the configuration, and the command line goes first', async () => {
  const cwd = project();
  await call(['migrate', '--schema', 'my_app', '--url', db.url]);
  await call(['queues', 'create', 'other', '--schema', 'my_app', '--url', db.url]);
  writeFileSync(
    join(cwd, 'my.config.mjs'),
    `import { DeadLetter, job } from 'holdfast';
     export default {
       url: ${JSON.stringify(db.url)}, schema: 'my_app',
       worker: { metadata: { version: '9.9.9' }, poll: '20ms', onEvent: (e) => e.kind === 'dead_letter' && console.log('dead_letter') },
       handlers(worker) {
         worker.handle(job('one', { queue: 'inbox' }), () => { throw new DeadLetter('no'); });
         worker.handle(job('two', { queue: 'other' }), () => console.log('never'));
       },
     };`,
  );
  const working = start(
    ['work', '--config', 'my.config.mjs', '--queue', 'inbox', '--concurrency', '3'],
    { cwd },
  );
  const where = ['--schema', 'my_app', '--url', db.url];
  await call(['enqueue', 'two', '{}', '--queue', 'other', ...where]);
  await call(['enqueue', 'one', ...where]);
  // DeadLetter is known for what it is only if the worker and the handler share one copy of holdfast.
  await until('the event of the dead letter', () => working.seen.out.includes('dead_letter'));
  const [worker] = values((await call(['workers', 'ls', '--json', ...where])).out);
  expect(worker?.metadata).toMatchObject({ version: '9.9.9', concurrency: 3 });
  working.child.kill('SIGINT');
  expect(await working.ended).toMatchObject({ code: 0, out: 'dead_letter\n' });
});

test('a worker that is asked to drain from elsewhere ends with 0, also if a handler does not', async () => {
  const cwd = project();
  writeFileSync(
    join(cwd, 'holdfast.config.mjs'),
    `import { job } from 'holdfast';
     export default { worker: { heartbeat: '200ms', ttl: '5s', grace: '100ms' }, handlers(w) {
       w.handle(job('x'), () => new Promise(() => { setInterval(() => {}, 1000); console.log('stuck'); }));
     } };`,
  );
  const env = { DATABASE_URL: db.url };
  const working = start(['work'], { cwd, env });
  const id = await until(
    'the worker is running',
    () => /"worker":"([^"]+)".*"msg":"worker started"/.exec(working.seen.err)?.[1],
  );
  await call(['enqueue', 'x'], { env });
  await until('its handler runs', () => working.seen.out.includes('stuck'));
  expect((await call(['workers', 'drain', id, '--reason', 'moving'], { env })).code).toBe(0);
  // What Restart=on-failure takes for the end.
  expect(await working.ended).toMatchObject({ code: 0 });
  const [row] = values((await call(['workers', 'ls', '--all', '--json'], { env })).out);
  expect(row).toMatchObject({ id, status: 'dead', state: 'left' });
  const [act] = values((await call(['audit', 'ls', '--json'], { env })).out);
  expect(act).toMatchObject({ act: 'drain', changes: { worker: id }, reason: 'moving' });
});

test('dashboard names the package that it needs where that is not installed', async () => {
  const cwd = mkdtempSync(join(tmpdir(), 'holdfast-cli-'));
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }));
  // A copy: by a link Node would find the packages that stand beside it.
  const own = join(cwd, 'node_modules/holdfast');
  for (const part of ['dist', 'package.json'])
    cpSync(join(ROOT, 'packages/holdfast', part), join(own, part), { recursive: true });
  for (const name of ['pg', 'croner'])
    symlinkSync(join(ROOT, 'node_modules', name), join(cwd, 'node_modules', name));
  const options = { cwd, env: { DATABASE_URL: db.url }, main: join(own, 'dist/cli.js') };
  const ran = await run(['dashboard', '--port', '0'], options);
  expect(ran).toMatchObject({ code: 1, out: '' });
  expect(ran.err).toContain(`npm install @holdfast/dashboard@${VERSION}\n`);
});

test('dashboard serves that of the project from another copy of the command, and refuses another version', async () => {
  const cwd = mkdtempSync(join(tmpdir(), 'holdfast-cli-'));
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }));
  const modules = join(cwd, 'node_modules');
  // Copies, so that there are two of holdfast: the command runs from the checkout.
  for (const [name, from] of [
    ['holdfast', 'holdfast'],
    ['@holdfast/dashboard', 'dashboard'],
  ] as const)
    for (const part of ['dist', 'package.json'])
      cpSync(join(ROOT, 'packages', from, part), join(modules, name, part), { recursive: true });
  for (const name of ['pg', 'croner'])
    symlinkSync(join(ROOT, 'node_modules', name), join(modules, name));
  const options = { cwd, env: { DATABASE_URL: db.url } };
  const serving = start(['dashboard', '--port', '0'], options);
  const url = await until('its address', () => {
    if (serving.child.exitCode !== null) throw new Error(serving.seen.err);
    return /^http:\/\/127\.0\.0\.1:\d+\/$/m.exec(serving.seen.out)?.[0];
  });
  expect((await fetch(`${url}api/queues`)).status).toBe(200);
  serving.child.kill('SIGTERM');
  expect(await serving.ended).toMatchObject({ code: 0 });

  const manifest = join(modules, '@holdfast/dashboard/package.json');
  const text = readFileSync(manifest, 'utf8');
  writeFileSync(manifest, text.replace(`"version": "${VERSION}"`, '"version": "9.9.9"'));
  const refused = await run(['dashboard', '--port', '0'], options);
  expect(refused).toMatchObject({ code: 1, out: '' });
  expect(refused.err).toContain('@holdfast/dashboard is version 9.9.9 here; nothing was started');
  expect(refused.err).toContain('npx holdfast@9.9.9 dashboard');
});

test('dashboard serves until it is asked to end, and only to this machine without a token', async () => {
  const env = { DATABASE_URL: db.url };
  const serving = start(['dashboard', '--port', '0', '--write'], { env });
  const url = await until(
    'its address',
    () => /^http:\/\/127\.0\.0\.1:\d+\/$/m.exec(serving.seen.out)?.[0],
  );
  expect(await (await fetch(`${url}api/session`)).json()).toMatchObject({ write: true });
  serving.child.kill('SIGTERM');
  expect(await serving.ended).toMatchObject({ code: 0 });
  expect(await call(['dashboard', '--host', '0.0.0.0'], { env })).toMatchObject({
    code: 2,
    err: expect.stringContaining('Set HOLDFAST_DASHBOARD_TOKEN'),
  });
  expect(await call(['dashboard', '--port', 'x'], { env })).toMatchObject({ code: 2 });
});
