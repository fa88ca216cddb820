/** Connections that are cut before each statement of a run or after it, and a database that only reads for a while. */
import { afterAll, expect, test } from 'vitest';
import { type Line, openLine } from '../../torture/proxy.mjs';
import { testRuns } from '../support/runs.js';

let line: Line;
const runs = testRuns({}, async ({ url, pool }) => {
  await pool.query('CREATE TABLE wrote (run text, what text)');
  line = await openLine(url);
  return line.url;
});
afterAll(() => line?.stop());
const { db } = runs;

const had = new Set<string>();
const child = runs.job<number>('child', (n) => n);
const errand = runs.workflow(
  'errand',
  async (flow, { months, hiccup }: { months: number; hiccup?: boolean }) => {
    const write = (what: string) =>
      flow.transaction(what, async (tx) => {
        await tx.query('INSERT INTO wrote VALUES ($1, $2)', [flow.id, `${what} ${months}`]);
        return what;
      });
    const reserved = await write('reserve');
    if (hiccup && flow.attempt === 1 && !had.has(flow.id)) {
      had.add(flow.id);
      throw new Error('a hiccup');
    }
    const charge = flow.step('charge', () => 'paid', { undo: () => undefined });
    const [paid, label] = await Promise.all([charge, flow.step('label', () => 'L')]);
    const children = await flow.children('children', child, [1, 2]);
    const go = await flow.wait('go', 'go', { timeout: '20s' });
    if (months > 1) await flow.restart({ months: months - 1 });
    return { reserved, paid, label, go, children: children.map((one) => one.status) };
  },
);

const EXPECTED = {
  ...{ reserved: 'reserve', paid: 'paid', label: 'L', go: 'now' },
  children: ['completed', 'completed'],
};

const STATEMENTS: Record<string, RegExp> = {
  load: /SELECT i\.undo_asked FROM holdfast\.inbox AS i WHERE i\.id = r\.id/,
  record: /unnest\(\$4::uuid\[\], \$5::text\[\]/,
  'record in a transaction': /RETURNING 1 AS written/,
  commit: /^COMMIT/,
  'write children': /jsonb_build_object\('q'/,
  'open children': /SELECT o\.id, CASE WHEN \$6::text/,
  outcomes: /FROM holdfast\.inbox_children AS c/,
  suspend: /inbox_suspend/,
  restart: /SET nth = r\.nth \+ 1/,
};

async function wrote(id: string): Promise<unknown[]> {
  const rows = await db.rows<{ what: string }>(
    'SELECT what FROM wrote WHERE run = $1 ORDER BY what',
    [id],
  );
  return rows.map(({ what }) => what);
}

test.each(Object.keys(STATEMENTS))(
  '%s: a cut before it or after it changes nothing',
  async (name) => {
    const months = name === 'restart' ? 2 : 1;
    for (const where of ['request', 'answer'] as const) {
      line.cuts.push({ statement: STATEMENTS[name] as RegExp, where, times: 1 });
      const made = line.cutsMade;
      const id = await runs.start(errand, { months });
      for (const key of ['1', '2']) await db.hf.signal(errand, id, 'go', 'now', { key });
      expect(await runs.end(errand, id)).toMatchObject({ status: 'completed', result: EXPECTED });
      expect(await wrote(id)).toEqual(['reserve 1', 'reserve 2'].slice(0, months));
      expect(line.cutsMade).toBe(made + 1);
    }
  },
);

test('a note of progress that is lost changes nothing that is recorded', async () => {
  line.cuts.push({ statement: /SET attempts = 1, crashes = 0 WHERE/, where: 'request', times: 1 });
  const id = await runs.start(errand, { months: 1, hiccup: true });
  await db.hf.signal(errand, id, 'go', 'now');
  expect(await runs.end(errand, id)).toMatchObject({ status: 'completed', result: EXPECTED });
});

test('a database that only reads for a while holds runs up, and no more', async () => {
  const id = await runs.start(errand, { months: 1 });
  await runs.asleep(id, 'go');
  const [{ name } = { name: '' }] = await db.rows<{ name: string }>(
    'SELECT current_database() AS name',
  );
  const to = async (mode: string) => {
    const client = await db.pool.connect();
    await client.query('SET default_transaction_read_only = off');
    await client.query(`ALTER DATABASE "${name}" SET default_transaction_read_only = ${mode}`);
    client.release(true);
    line.resetAll();
  };
  await db.hf.signal(errand, id, 'go', 'now');
  await to('on');
  await new Promise((resolve) => setTimeout(resolve, 150));
  await to('off');
  expect(await runs.end(errand, id)).toMatchObject({ status: 'completed', result: EXPECTED });
  expect(await wrote(id)).toEqual(['reserve 1']);
});
