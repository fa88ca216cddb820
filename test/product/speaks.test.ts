/** What a worker says without being asked: where it is, what failed, what nobody handles, how it ended. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import {
  DeadLetter,
  type Holdfast,
  holdfast,
  job,
  type WorkerEvent,
} from '../../packages/holdfast/src/index.js';
import { VERSION } from '../../packages/holdfast/src/job/options/version.js';
import { testDatabase } from '../support/database.js';
import { recordingLogger } from '../support/logger.js';
import { until } from '../support/until.js';
import { gate, testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
beforeEach(() => db.rows('DELETE FROM holdfast.inbox'));

function listened(): { hf: Holdfast; line: (message: string) => object | undefined } & Pick<
  ReturnType<typeof recordingLogger>,
  'lines'
> {
  const logger = recordingLogger();
  const hf = holdfast({ connectionString: db.url, logger });
  onTestFinished(() => hf.close());
  const line = (message: string) => logger.lines.find((one) => one.message === message);
  return { hf, line, lines: logger.lines };
}

test('it starts, an attempt fails, a job becomes a dead letter, it stops: one line each', async () => {
  const { hf, line, lines } = listened();
  const flaky = job<{ card: string }>('flaky', { retry: () => 0, maxAttempts: 3 });
  const { worker, events, stop } = start(hf, (one) =>
    one.handle(flaky, ({ attempt }) => {
      if (attempt === 1) throw new Error('no such mailbox\nand more');
      throw new DeadLetter('the card was refused');
    }),
  );
  const { id } = await hf.enqueue(flaky, { card: 'secret-4242' });
  await until('the dead letter is said', () => line('a job became a dead letter'));
  await stop();

  const { host, pathname } = new URL(db.url);
  const facts = (message: string) => (line(message) as { facts: object } | undefined)?.facts;
  expect(facts('worker started')).toEqual({
    component: 'worker',
    worker: worker.id,
    queues: ['inbox'],
    database: pathname.slice(1),
    host,
    schema: 'holdfast',
    version: VERSION,
  });
  const attempts = { component: 'worker', queue: 'inbox', type: 'flaky', job: id, maxAttempts: 3 };
  expect(line('an attempt failed')).toMatchObject({ level: 'warn' });
  expect(facts('an attempt failed')).toEqual({
    ...attempts,
    attempt: 1,
    retryInMs: 0,
    err: 'Error: no such mailbox',
  });
  expect(line('a job became a dead letter')).toMatchObject({ level: 'error' });
  expect(facts('a job became a dead letter')).toEqual({
    ...attempts,
    attempt: 2,
    err: 'DeadLetter: the card was refused',
  });
  expect(facts('worker stopped')).toMatchObject({ completed: 0, failed: 1, deadLetters: 1 });
  expect(lines.at(-1)?.message).toBe('worker stopped');
  expect(JSON.stringify(lines)).not.toContain('secret-4242');

  // The same is in the events, with the error itself.
  const event = (kind: WorkerEvent['kind']) => events.find((one) => one.kind === kind);
  expect(event('failed')).toMatchObject({ attempt: 1, maxAttempts: 3, retryInMs: 0 });
  expect(event('failed')).toHaveProperty('error.message', 'no such mailbox\nand more');
  expect(event('dead_letter')).toHaveProperty('error', expect.any(DeadLetter));
});

test('a stop says what still runs, and what was released', async () => {
  const { hf, line } = listened();
  const slow = job('slow');
  const [began, end] = [gate(), gate()];
  const { stop } = start(hf, (one) =>
    one.handle(slow, () => {
      began.open();
      return end.opened;
    }),
  );
  await hf.enqueue(slow, {});
  await began.opened;
  await stop(0);
  end.open();
  expect(line('worker stopping')).toMatchObject({ facts: { running: 1, graceMs: 0 } });
  expect(line('worker stopped')).toMatchObject({ facts: { completed: 0, released: 1 } });
});

test('a burst of failures is a few lines and a number', async () => {
  const { hf, lines } = listened();
  const down = job('down', { maxAttempts: 1 });
  await hf.enqueueMany(Array.from({ length: 300 }, () => down.item({})));
  const { worker, stop } = start(hf, (one) =>
    one.handle(down, () => {
      throw new Error('ECONNREFUSED');
    }),
  );
  await until('all have failed', () => worker.stats.dead_letter === 300);
  await stop();
  const said = lines.filter(({ facts }) => (facts as { type?: string }).type === 'down');
  const more = said.map(({ facts }) => (facts as { more?: number }).more ?? 1);
  expect(more.reduce((sum, n) => sum + n, 0)).toBe(300);
  expect(said.length).toBeLessThan(60);
  const sentences = said.map(({ message }) => message);
  expect(sentences).toContainEqual(
    expect.stringMatching(/^a job became a dead letter: and \d+ more$/),
  );
});

describe('due jobs that no worker of the fleet handles', () => {
  const MESSAGE = 'due jobs wait for a type or a version that no live worker handles';
  const known = job('known', { version: 2, upgrade: { 1: (payload) => payload } });
  const quick = { maintenance: '50ms' } as const;
  const typesSaid = (lines: readonly { message: string | undefined; facts: object }[]) =>
    lines
      .filter(({ message }) => message === MESSAGE)
      .map(({ facts }) => (facts as { type: string }).type);

  test.each(['none', 'key'] as const)(
    'are said: of a type and of a version, in a queue read by %s, also one that nobody serves',
    async (ordering) => {
      const { hf, lines } = listened();
      const queue = `lonely_${ordering}`;
      await hf.createQueue(queue, { ordering });
      start(hf, (one) => one.handle(known, () => undefined), quick);
      await hf.enqueue(job('send_fax', { queue }), { card: 'secret-4242' });
      await hf.enqueue(job(`later_${ordering}`, { queue }), {}, { delay: '1h' });
      await hf.enqueue(known, {});
      await db.rows(`SELECT holdfast.inbox_enqueue('known', '{}', version => 3)`);
      await until('both are said', () => typesSaid(lines).length === 2);
      expect(typesSaid(lines).toSorted()).toEqual(['known', 'send_fax']);
      const fax = lines.find(({ facts }) => (facts as { type?: string }).type === 'send_fax');
      expect(fax).toMatchObject({ level: 'warn', facts: { queue, version: 1 } });
      expect(JSON.stringify(lines)).not.toContain('secret-4242');
      await db.rows(`DELETE FROM holdfast.${queue}`);
    },
  );
});

describe('a process that sets nothing up', () => {
  const INDEX = fileURLToPath(new URL('../../packages/holdfast/dist/index.js', import.meta.url));
  const PROGRAM = `
    import { holdfast, job } from ${JSON.stringify(INDEX)};
    const hf = holdfast();
    const hello = job('hello_child');
    const worker = hf.worker().handle(hello, () => void worker.stop());
    await hf.enqueue(hello, { card: 'secret-4242' });
    await worker.run();
    await hf.close();
    console.log('ended by itself');`;

  const STOPPED_AT_ONCE = `
    import { holdfast, job } from ${JSON.stringify(INDEX)};
    const hf = holdfast();
    const onEvent = ({ kind }) => kind === 'started' && setImmediate(() => worker.stop());
    const worker = hf.worker({ onEvent }).handle(job('hello_child'), () => {});
    await worker.run();
    await hf.close();
    console.log('ended by itself');`;

  async function run(env: Record<string, string> = {}, closed = false, program = PROGRAM) {
    const url = new URL(db.url);
    url.password ||= 'hunter2';
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-speaks-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    writeFileSync(join(folder, 'main.mjs'), program);
    const child = spawn(process.execPath, [join(folder, 'main.mjs')], {
      env: { PATH: process.env.PATH ?? '', DATABASE_URL: url.href, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    const seen = { out: '', err: '' };
    child.stdout.on('data', (chunk) => {
      seen.out += chunk;
    });
    if (closed) child.stderr.destroy();
    child.stderr.on('data', (chunk) => {
      seen.err += chunk;
    });
    const code = await new Promise((resolve) => child.once('close', resolve));
    return { code, ...seen, password: url.password };
  }

  test('a worker that is stopped as soon as it has started lets the process end', async () => {
    const { code, out } = await run({}, false, STOPPED_AT_ONCE);
    expect({ code, out }).toEqual({ code: 0, out: 'ended by itself\n' });
  });

  test('writes JSON lines to stderr, without payloads and without the password', async () => {
    const { code, out, err, password } = await run();
    expect({ code, out }).toEqual({ code: 0, out: 'ended by itself\n' });
    const lines = err
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
      // A slow machine may add a warning.
      .filter(({ level }) => level === 'info');
    expect(lines.map(({ msg }) => msg)).toEqual([
      'worker started',
      'worker stopping',
      'worker stopped',
    ]);
    expect(lines[2]).toMatchObject({ level: 'info', completed: 1 });
    expect(err).not.toContain(password);
    expect(err).not.toContain('secret-4242');
  });

  test('says nothing if it is told so', async () => {
    expect(await run({ HOLDFAST_LOG: 'silent' })).toMatchObject({ code: 0, err: '' });
  });

  test('goes on when nobody reads its stderr any more', async () => {
    expect(await run({}, true)).toMatchObject({ code: 0, out: 'ended by itself\n' });
  });
});
