/** The programs of `examples/` run as they are, on a database of their own, and do what they say. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { expect, onTestFinished, test, vi } from 'vitest';
import { cloneTemplate } from '../support/clone.js';
import { emptyDatabases } from '../support/empty-database.js';
import { long } from '../support/long.js';
import { until } from '../support/until.js';

const EXAMPLES = fileURLToPath(new URL('../../examples', import.meta.url));
const makeDatabase = emptyDatabases();

/** In short it is migrated already: that programs migrate by themselves is seen with those above, and in full with all. */
async function someDatabase(): Promise<string> {
  if (long(false, true)) return makeDatabase();
  const { url, drop } = await cloneTemplate();
  onTestFinished(drop);
  return url;
}

interface Program {
  readonly child: ChildProcess;
  readonly out: () => string;
  /** Resolves with the exit code. */
  readonly ended: Promise<number | null>;
}

function start(url: string, path: string, ...args: string[]): Program {
  const child = spawn(process.execPath, [`${EXAMPLES}/${path}`, ...args], {
    env: { PATH: process.env.PATH ?? '', DATABASE_URL: url, PORT: '0' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [out, err] = ['', ''];
  child.stdout.on('data', (chunk) => {
    out += chunk;
  });
  child.stderr.on('data', (chunk) => {
    err += chunk;
  });
  const ended = new Promise<number | null>((resolve) => {
    child.once('close', (code) => {
      if (code !== 0) console.error(err);
      resolve(code);
    });
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  return { child, out: () => out, ended };
}

async function rows(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}

test('http-api: an order and its receipt, and a drain on SIGTERM', async () => {
  const url = await makeDatabase();
  const api = start(url, 'http-api/main.mjs');
  const base = await until('it listens', () => /http:\S+/.exec(api.out())?.[0]);
  const order = { email: 'ada@example.com', total: 42 };
  const post = (body: string) => fetch(`${base}/orders`, { method: 'POST', body });
  const placed = await post(JSON.stringify(order));
  expect(placed.status).toBe(201);
  const { id } = (await placed.json()) as { id: number };
  const read = async () => (await fetch(`${base}/orders/${id}`)).json();
  await until(
    'the receipt is sent',
    async () => ((await read()) as { receipt_at: unknown }).receipt_at,
  );
  expect(api.out()).toContain(`mail: receipt for order ${id}\n`);
  // What is refused leaves neither an order nor a job.
  expect((await post('{"email": null}')).status).toBe(400);
  expect((await fetch(`${base}/orders/99`)).status).toBe(404);
  expect(await rows(url, 'SELECT id FROM orders')).toHaveLength(1);
  api.child.kill('SIGTERM');
  expect(await api.ended).toBe(0);
  expect(await rows(url, 'SELECT id FROM holdfast.inbox')).toEqual([]);
});

test('next-app: the route enqueues once, the worker runs it, the route says so', async () => {
  const url = await makeDatabase();
  const worker = start(url, 'next-app/worker.mjs');
  await until('the worker has migrated', async () =>
    rows(url, 'SELECT id FROM holdfast.workers').then(
      (found) => found.length > 0,
      () => false,
    ),
  );
  vi.stubEnv('DATABASE_URL', url);
  onTestFinished(() => void vi.unstubAllEnvs());
  const { GET, POST } = await import(`${EXAMPLES}/next-app/app/api/images/route.mjs`);
  const { hf } = await import(`${EXAMPLES}/next-app/lib.mjs`);
  onTestFinished(() => hf.close());
  const request = () =>
    new Request('http://localhost/api/images', {
      method: 'POST',
      headers: { 'idempotency-key': 'one' },
      body: JSON.stringify({ image: 'cat.png' }),
    });
  const [first, again] = [await POST(request()), await POST(request())];
  expect([first.status, again.status]).toEqual([202, 200]);
  const { id } = await first.json();
  expect(await again.json()).toEqual({ id });
  await until('it is completed', async () => {
    const found = await GET(new Request(`http://localhost/api/images?id=${id}`));
    return (await found.json()).status === 'completed';
  });
  for (const other of ['', '?id=cat.png', `?id=${crypto.randomUUID()}`]) {
    expect((await GET(new Request(`http://localhost/api/images${other}`))).status).toBe(404);
  }
  expect(worker.out()).toBe('resized cat.png\n');
  worker.child.kill('SIGTERM');
  expect(await worker.ended).toBe(0);
});

test('batch-import: every line once, also when it is run twice', async () => {
  const url = await makeDatabase();
  const args = ['batch-import/main.mjs', `${EXAMPLES}/batch-import/customers.csv`] as const;
  const first = start(url, ...args);
  expect(await first.ended).toBe(0);
  expect(first.out()).toBe('7 lines enqueued, 0 were there already\n6 customers, 1 lines failed\n');
  const again = start(url, ...args);
  expect(await again.ended).toBe(0);
  expect(again.out()).toBe('0 lines enqueued, 7 were there already\n6 customers, 0 lines failed\n');
});

test('batch-import: a corrected file is imported, and jobs of others do not keep it', async () => {
  const url = await makeDatabase();
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-import-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const run = async (lines: string) => {
    writeFileSync(join(folder, 'a.csv'), `email,name\n${lines}`);
    const program = start(url, 'batch-import/main.mjs', join(folder, 'a.csv'));
    expect(await program.ended).toBe(0);
    return program.out();
  };
  expect(await run('a@b.c,Ada\ng@b.c\n')).toContain('1 customers, 1 lines failed');
  await rows(url, `SELECT holdfast.inbox_enqueue('of_somebody_else', '{}')`);
  expect(await run('a@b.c,Ada\ng@b.c,Grace\n')).toBe(
    '1 lines enqueued, 1 were there already\n2 customers, 0 lines failed\n',
  );
});

test('multi-tenant: every tenant has its invoices, numbered without a gap', async () => {
  const url = await makeDatabase();
  const saas = start(url, 'multi-tenant/main.mjs');
  expect(await saas.ended).toBe(0);
  expect(saas.out()).toBe(
    'large: 100 invoices up to 100\nsmall: 5 invoices up to 5\ntiny: 5 invoices up to 5\n',
  );
});

test('shapes/receipts: no receipt without its order, and each exactly once', async () => {
  const url = await someDatabase();
  const program = start(url, 'shapes/receipts.mjs');
  expect(await program.ended).toBe(0);
  expect(program.out()).toBe(
    'order 2 is too dear\nreceipt for order 1: 40\nreceipt for order 3: 7\n2 attempts failed\n',
  );
});

test('shapes/outbox: events of committed orders, in order for each, and an outage that costs no attempt', async () => {
  const url = await someDatabase();
  const program = start(url, 'shapes/outbox.mjs');
  expect(await program.ended).toBe(0);
  expect(program.out()).toBe(
    [
      'rolled back: duplicate key value violates unique constraint',
      'order:1: order.placed {"sku":"tea"}',
      'order:1: order.paid {"total":12}',
      'order:1: order.sent {}',
      'order:2: order.placed {"sku":"cup"}',
      'the stock system was away for a while, refused 0',
      '4 published, 0 attempts spent\n',
    ].join('\n'),
  );
});

test('shapes/read-model: late commits count, and a second version takes the place of the first', async () => {
  const url = await someDatabase();
  const program = start(url, 'shapes/read-model.mjs');
  expect(await program.ended).toBe(0);
  expect(program.out()).toBe(
    [
      'monday 900, tuesday 300',
      'monday 1200, tuesday 300',
      'cup 900, monday 1200, tea 600, tuesday 300\n',
    ].join('\n'),
  );
});

test('shapes/webhooks: each event id is one payment, however often it comes and whatever it says then', async () => {
  const url = await someDatabase();
  const program = start(url, 'shapes/webhooks.mjs');
  expect(await program.ended).toBe(0);
  expect(program.out().replaceAll(/ +\n/g, '\n')).toBe(
    [
      ...['evt_1 200', 'evt_2 200', 'evt_1 200', 'evt_2 200', 'evt_3 401 the signature is wrong'],
      ...['order 1 paid: 40', 'order 2 paid: 7'],
      'answered: {"accepted":2,"repeated":2,"conflicts":1,"refused":1,"unavailable":0}\n',
    ].join('\n'),
  );
  expect(await rows(url, 'SELECT event_id FROM deliveries')).toHaveLength(2);
});
