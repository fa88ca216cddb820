/** What a person at a terminal sees of runs, and does with them. */
import { expect, test } from 'vitest';
import { DeadLetter, job, workflow } from '../../packages/holdfast/src/index.js';
import { call, values } from '../support/cli-run.js';
import { testDatabase } from '../support/database.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const holdfast = (...args: string[]) => call(args, { env: { DATABASE_URL: db.url } });

const UNKNOWN = '0199a1c2-7d3e-7000-8000-000000009182';
const checkout = workflow<{ card: string }, { approved: { by: string } }>('checkout', {
  maxAttempts: 1,
});

test('a run is listed, shown, explained, given its signal, and retried from a step', async () => {
  let stock = 0;
  start(db.hf, (worker) =>
    worker.workflow(checkout, async (flow, { card }) => {
      await flow.step('charge', () => ({ card }), { undo: () => undefined });
      const yes = await flow.wait('approval', 'approved', { timeout: '2d' });
      await flow.step('reserve', () => {
        if (stock === 0) throw new DeadLetter('no stock');
        return stock;
      });
      return yes;
    }),
  );
  const { id } = await db.hf.enqueue(checkout, { card: 'secret-4711' }, { tag: 'vip' });
  const waiting = async (run: string) =>
    (await db.hf.runs({ state: 'waiting' })).runs.some((one) => one.id === run);
  await until('it waits', () => waiting(id));

  const list = await holdfast('workflows', 'ls', '--state', 'waiting', '--tag', 'vip');
  expect(list.out).toMatch(new RegExp(`^RUN +WORKFLOW +STATE +KEY +TAG +AGE +WAITS FOR\n${id} +`));
  expect(list.out).toMatch(/ checkout +waiting +- +vip +.* approved \(approval\) until 20/);
  const [row] = values((await holdfast('workflows', 'ls', '--json')).out);
  expect(row).toMatchObject({ id, state: 'waiting', waits: [{ name: 'approval' }] });
  expect((await holdfast('workflows', 'ls', '--state', 'running')).err).toBe('No run matches.\n');
  const mixed = await holdfast('workflows', 'ls', '--state', 'waiting,completed');
  expect([mixed.code, mixed.err]).toEqual([2, expect.stringContaining('completed in a list')]);

  const { out: shown } = await holdfast('workflows', 'show', id);
  expect(shown).toMatch(/^run +\S+\nworkflow +checkout \(version 1\)\n/);
  expect(shown).toMatch(/state +waiting\ntag +vip\n/);
  expect(shown).toMatch(/ charge +step +done +\S+.*\|[# ]+\|/);
  expect(shown).toMatch(/ approval +wait +waiting .*\| *\.+\| +for approved until 20/);
  expect(shown).not.toContain('secret-4711');
  expect((await holdfast('workflows', 'show', id, '--values')).out).toContain('secret-4711');

  const { out: history } = await holdfast('workflows', 'history', id);
  expect(JSON.parse(history)).toEqual(await db.hf.history(id));
  expect((await holdfast('workflows', 'history', UNKNOWN)).err).toContain(
    `No run ${UNKNOWN} is in`,
  );

  const why = await holdfast('explain', id);
  expect(why.out).toMatch(
    /^It waits, and holds no worker: for the signal "approved" in step "approval", since .*, until .* \(in (2 d|1 d 23 h)\)\.\n/,
  );
  expect(why.out).toContain(`holdfast workflows signal ${id} approved`);

  const sent = await holdfast('workflows', 'signal', id, 'approved', '{"by":"kim"}', '--key', 'a');
  expect([sent.code, sent.out]).toEqual([0, `${id}\n`]);
  await until('it is dead', async () => (await db.hf.job(id))?.status === 'dead_letter');
  const ended = await holdfast('workflows', 'show', id);
  expect(ended.out).toMatch(/ charge +undo +done /);
  expect(ended.out).toMatch(/ approved +a +approval\n/);

  stock = 1;
  const retried = await holdfast('workflows', 'retry', id, '--from', 'reserve', '--reason', 'new');
  expect([retried.code, retried.err]).toEqual([0, '1 of 1 run retried.\n']);
  expect((await db.hf.wait(checkout, id, { timeout: '20s' })).result).toEqual({ by: 'kim' });
  expect(values((await holdfast('workflows', 'ls', '--state', 'completed', '--json')).out)).toEqual(
    [expect.objectContaining({ id, tag: 'vip', state: 'completed' })],
  );
  const gone = await holdfast('workflows', 'signal', id, 'approved');
  expect([gone.code, gone.err]).toEqual([1, expect.stringContaining('it has ended')]);

  const other = await db.hf.enqueue(checkout, { card: 'c' });
  await until('the other waits', () => waiting(other.id));
  const refused = await holdfast('workflows', 'cancel');
  expect([refused.code, refused.err]).toEqual([2, expect.stringContaining('Say which runs')]);
  const told = await holdfast('workflows', 'cancel', other.id, '--undo', '--yes');
  expect(told.err).toContain('1 of 1 run told to undo what it did.');
  expect((await db.hf.wait(other.id, { timeout: '20s' })).status).toBe('cancelled');
  const plain = await db.hf.enqueue(job('plain'), {}, { delay: '1d' });
  const lost = await holdfast('workflows', 'signal', plain.id, 'approved');
  expect(lost.err).toContain('No worker has a body for "plain"');
  const acts = (await db.hf.audit()).acts.map(({ act }) => act);
  expect(acts).toEqual(['signal', 'cancel', 'retry', 'signal']);
});
