/**
 * Workers in Python, in psql and in TypeScript on one queue, while those in other languages are killed and frozen. Nobody
 * can tell who ran what: nothing is lost, no effect is doubled, keys keep their order, and the archive looks the same.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';
import { sqlWorkers } from '../support/protocol.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const PYTHON = process.env.HOLDFAST_PYTHON ?? '';
const PSQL = process.env.HOLDFAST_PSQL ?? '';
const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

const open = new Set<ChildProcess>();
const output: string[] = [];

/** In a process group of its own: a fault hits the worker with all that it has started. */
function run(command: string, args: readonly string[], env: Record<string, string> = {}) {
  const child = spawn(command, args, {
    ...{ detached: true, stdio: ['ignore', 'pipe', 'pipe'] },
    env: { ...process.env, DATABASE_URL: db.url, ...env },
  });
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (text) => void output.push(String(text)));
  open.add(child);
  child.once('exit', () => open.delete(child));
  return child;
}

const send = (child: ChildProcess, signal: NodeJS.Signals) => {
  try {
    process.kill(-(child.pid as number), signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
};

beforeAll(() =>
  db.rows(`CREATE TABLE public.effects (
    nth bigserial, job uuid NOT NULL, key text NOT NULL, n integer NOT NULL, worker text NOT NULL)`),
);
beforeEach(() => db.rows('TRUNCATE public.effects'));
afterEach(() => {
  for (const child of open) send(child, 'SIGKILL');
});

const LANGUAGES = [
  {
    name: 'python',
    there: PYTHON !== '',
    begin: (queue: string) => run(PYTHON, [here('worker.py'), queue, 'entry']),
  },
  {
    name: 'psql',
    there: PSQL !== '',
    begin: (queue: string) =>
      run(here('../../examples/psql/worker.sh'), ['entry', here('handle.sh')], {
        ...{ QUEUE: queue, LEASE: '4 seconds', TTL: '2 seconds', BEAT: '0.5', POLL: '0.1' },
      }),
  },
].filter(({ there }) => there);

interface Fault {
  readonly kills: number;
  readonly freezes: number;
}

/** Kills or freezes one of them after the other, until all jobs are done. Whoever is killed is replaced. */
async function torment(queue: string, each: number, done: () => Promise<boolean>): Promise<Fault> {
  const fleet = LANGUAGES.flatMap(({ begin }) =>
    Array.from({ length: each }, () => ({ begin, child: begin(queue) })),
  );
  const faults = { kills: 0, freezes: 0 };
  const deadline = Date.now() + 150_000;
  while (!(await done())) {
    if (Date.now() > deadline) throw new Error(`not done: ${output.slice(-20).join('')}`);
    await new Promise((resolve) => setTimeout(resolve, 700));
    const one = fleet[Math.floor(Math.random() * fleet.length)];
    if (!one) continue;
    if (Math.random() < 0.6) {
      send(one.child, 'SIGKILL');
      one.child = one.begin(queue);
      faults.kills += 1;
    } else {
      const { child } = one;
      send(child, 'SIGSTOP');
      // Longer than its TTL: it is declared dead, and wakes up as somebody who may not settle anything.
      setTimeout(() => send(child, 'SIGCONT'), 3_000);
      faults.freezes += 1;
    }
  }
  for (const { child } of fleet) send(child, 'SIGTERM');
  return faults;
}

const KEYS = 40;
const QUICK = { heartbeat: '500ms', ttl: '2s', lease: '4s', maintenance: '500ms' } as const;

describe.skipIf(LANGUAGES.length === 0)('killed and frozen', () => {
  test.each([
    ['beside workers in TypeScript', 'ledger', true, 20],
    ['by themselves', 'alone', false, 6],
  ])('%s', { timeout: 240_000 }, async (_, queue, beside, each) => {
    await db.hf.createQueue(queue, { ordering: 'key' });
    const entry = job<{ n: number }>('entry', { queue, maxAttempts: 50, retry: () => 200 });
    const items = Array.from({ length: each }, (__, n) =>
      Array.from({ length: KEYS }, (___, key) =>
        entry.item({ n: n + 1 }, { partitionKey: `account:${key}` }),
      ),
    );
    await db.hf.enqueueMany(items.flat());
    if (beside)
      start(
        db.hf,
        (w) =>
          w.handle(entry, async (ctx) => {
            // So that there is work for the others.
            await new Promise((resolve) => setTimeout(resolve, 100));
            if (Math.random() < 0.1) throw new Error('no luck');
            await ctx.transaction(async (tx) => {
              await tx.query(
                'INSERT INTO public.effects (job, key, n, worker) VALUES ($1, $2, $3, $4)',
                [ctx.id, ctx.partitionKey, ctx.payload.n, 'typescript'],
              );
            });
          }),
        { ...QUICK, concurrency: 3 },
      );
    const left = async () =>
      (await db.rows<{ n: number }>(`SELECT count(*)::int AS n FROM holdfast.${queue}`))[0]?.n;
    const faults = await torment(queue, 3, async () => (await left()) === 0);

    // Nothing lost, nothing doubled, and every key in its order.
    const effects = await db.rows<{ key: string; n: number; worker: string }>(
      'SELECT key, n, worker FROM public.effects ORDER BY nth',
    );
    expect(effects).toHaveLength(KEYS * each);
    for (let key = 0; key < KEYS; key++)
      expect(effects.filter((one) => one.key === `account:${key}`).map(({ n }) => n)).toEqual(
        Array.from({ length: each }, (__, n) => n + 1),
      );
    const ran = new Set(effects.map(({ worker }) => worker.split('-')[0]));
    expect([...ran].sort()).toEqual(
      [...LANGUAGES.map(({ name }) => name), ...(beside ? ['typescript'] : [])].sort(),
    );
    expect(faults.kills).toBeGreaterThan(0);
    const shapes = await db.rows<{ kind: string; columns: string[] }>(
      `SELECT DISTINCT e.kind, ARRAY(SELECT jsonb_object_keys(jsonb_strip_nulls(to_jsonb(a))) ORDER BY 1) AS columns
       FROM holdfast.${queue}_archive AS a
       JOIN (SELECT job, split_part(worker, '-', 1) AS kind FROM public.effects) AS e ON e.job = a.id
       WHERE a.attempts = 1 AND a.history IS NULL`,
    );
    expect(new Set(shapes.map(({ columns }) => columns.join(' '))).size).toBe(1);
    console.info(
      `${queue}: ${JSON.stringify({ ...faults, by: count(effects.map(({ worker }) => worker.split('-')[0])) })}`,
    );
  });
});

const count = (words: readonly (string | undefined)[]) =>
  Object.fromEntries(
    [...new Set(words)].map((word) => [word, words.filter((one) => one === word).length]),
  );

test.skipIf(PYTHON === '')(
  'a frozen worker that wakes up in its handler leaves nothing behind',
  async () => {
    await db.hf.createQueue('frozen');
    const entry = job<{ n: number; seconds: number }>('entry', { queue: 'frozen' });
    await db.hf.enqueue(entry, { n: 1, seconds: 1 }, { partitionKey: 'k' });
    const begin = () => run(PYTHON, [here('worker.py'), 'frozen', 'entry']);
    const first = begin();
    const held = `SELECT FROM holdfast.frozen WHERE status = 'processing'`;
    await until('it has the job', async () => (await db.rows(held)).length === 1);
    send(first, 'SIGSTOP');
    begin();
    const effects = () => db.rows('SELECT worker FROM public.effects');
    await until('the job ran elsewhere', async () => (await effects()).length === 1);
    const [before] = await effects();
    send(first, 'SIGCONT');
    await until('it says that its job is lost', () => output.join('').includes('lost '));
    expect(await effects()).toEqual([before]);
  },
);

test.skipIf(PYTHON === '')('the worker that docs/protocol.md prints runs as printed', async () => {
  const [, code = ''] =
    /```python\n([\s\S]*?)```/.exec(readFileSync(here('../../docs/protocol.md'), 'utf8')) ?? [];
  const program = code.replace('"postgres://worker@db/shop"', 'os.environ["DATABASE_URL"]');
  expect(program).not.toBe(code);
  const { id } = await db.hf.enqueue(job('send_receipt'), { orderId: 9182 });
  run(PYTHON, ['-c', `import os\ndef send_receipt(payload):\n    print(payload)\n${program}`]);
  await until('the job is completed', async () => (await db.hf.job(id))?.status === 'completed');
});

test.skipIf(PSQL === '')(
  'the worker in psql says what a failing handler said, and keeps results',
  async () => {
    const one = job<{ n: number }>('one');
    const { id } = await db.hf.enqueue(one, { n: 1 });
    run(here('../../examples/psql/worker.sh'), ['one', 'cat'], { POLL: '0.1' });
    await until('the job is completed', async () => (await db.hf.job(id))?.status === 'completed');
    expect(await db.hf.job(id)).toMatchObject({ result: { n: 1 } });
    const other = await db.hf.enqueue(job('two', { maxAttempts: 1 }), {});
    run(here('../../examples/psql/worker.sh'), ['two', 'false'], { POLL: '0.1' });
    await until(
      'it is a dead letter',
      async () => (await db.hf.job(other.id))?.status === 'dead_letter',
    );
  },
);

test('the loop of four calls is the same for a worker that is nothing but pg', async () => {
  const { id } = await db.hf.enqueue(job('three'), {});
  const worker = await sqlWorkers(db)(['three']);
  const [held] = await worker.claim();
  expect(await worker.complete(held!)).toBe('completed');
  expect(held?.id).toBe(id);
});
