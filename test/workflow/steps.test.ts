/** Steps and transactions: once, in one order for ever, within their limits, and never upon code that has changed. */
import type pg from 'pg';
import { expect, test } from 'vitest';
import { type StepAbout, StepFailed } from '../../packages/holdfast/src/index.js';
import { SOON, testRuns } from '../support/runs.js';
import { gate } from '../support/workers.js';

const runs = testRuns();
const { db } = runs;

const twice = runs.workflow('twice', async (flow) => {
  await flow.step('charge', () => 1);
  await flow.step('charge', () => 2);
});

test('a name that is used twice in a turn is an error that says so', async () => {
  const { status, error } = await runs.ran(twice);
  expect(status).toBe('dead_letter');
  expect(error).toContain('two things named "charge"');
});

const charged: string[] = [];
const notJson = runs.workflow('not_json', async (flow, kind: string) => {
  const values: Record<string, unknown> = {
    ...{ bigint: { n: 1n }, function: [() => 1], nul: 'a\0b', half: '\ud800' },
    ...{ large: 'x'.repeat(3_000_000), nan: Number.NaN },
  };
  try {
    await flow.step('charge', () => {
      charged.push(kind);
      return values[kind] as string;
    });
  } catch (error) {
    if (!(error instanceof StepFailed)) throw error;
    await flow.sleep('another turn', 1);
    return error.error.code;
  }
});

test('a value that is no JSON is refused, and the effect is not repeated for it', async () => {
  const kinds = ['bigint', 'function', 'nul', 'half', 'large', 'nan'];
  const ended = await Promise.all(kinds.map((kind) => runs.ran(notJson, kind)));
  expect(ended.map(({ result }) => result)).toEqual(
    kinds.map((kind) => (kind === 'large' ? 'PAYLOAD_TOO_LARGE' : 'PAYLOAD_NOT_JSON')),
  );
  expect([...charged].sort()).toEqual([...kinds].sort());
});

const tries: Pick<StepAbout, 'key' | 'attempt'>[] = [];
const slow = runs.workflow('slow', async (flow) =>
  flow.step(
    'charge',
    async ({ key, attempt, signal }) => {
      tries.push({ key, attempt });
      if (attempt === 3) return 'paid';
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      expect((signal.reason as { code: string }).code).toBe('STEP_TIMEOUT');
      throw signal.reason;
    },
    { timeout: 20, maxAttempts: 3, retry: { base: 300, cap: 300 } },
  ),
);

test('a step has a time limit and tries of its own, and one key in all of them', async () => {
  const id = await runs.start(slow);
  expect(await runs.end(slow, id)).toMatchObject({ status: 'completed', result: 'paid' });
  expect(tries).toEqual([1, 2, 3].map((attempt) => ({ key: `${id}/charge`, attempt })));
});

const flaky: number[] = [];
const patient = runs.workflow('patient', async (flow) => {
  const fails = flow
    .step(
      'flaky',
      ({ attempt }) => {
        flaky.push(attempt);
        throw new Error('not yet');
      },
      { maxAttempts: 2, retry: () => 60_000 },
    )
    .catch(() => undefined);
  for (let n = 0; n < 3; n++) await flow.wait(`poke ${n}`, 'poke');
  await flow.wait('never', 'never');
  await fails;
});

test('a step that waits for its next try is not tried when something else wakes the run', async () => {
  const id = await runs.start(patient);
  for (let n = 0; n < 3; n++) {
    await runs.asleep(id, `poke ${n}`);
    await db.hf.signal(patient, id, 'poke');
  }
  await runs.asleep(id, 'never');
  expect(flaky).toEqual([1]);
});

const heard: string[][] = [];
const held = gate();
const parallel = runs.workflow('parallel', async (flow) => {
  const seen: string[] = [];
  heard.push(seen);
  const one = async (name: string, wait: Promise<void> | null) => {
    await flow.step(name, async () => void (await wait));
    seen.push(name);
    if (name === 'b') held.open();
  };
  await Promise.all([one('a', held.opened), one('b', null)]);
  const winner = await Promise.race([
    flow.step('x', async () => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      return 'x';
    }),
    flow.step('y', () => 'y'),
  ]);
  seen.push(winner as string);
  await flow.sleep('another turn', 50);
  return winner;
});

test('the code hears of parallel steps in one order in every turn, and a race has one winner', async () => {
  expect(await runs.ran(parallel)).toMatchObject({ status: 'completed', result: 'y' });
  expect(heard).toEqual([
    ['b', 'a', 'y'],
    ['b', 'a', 'y'],
  ]);
});

let changed = '';
const effects: string[] = [];
const changing = runs.workflow('changing', async (flow, how: string) => {
  const did = (name: string) => () => void effects.push(name);
  if (changed === 'kind') await flow.sleep('charge', 1);
  else if (changed !== 'gone' || how !== 'gone') await flow.step('charge', did('charge'));
  if (changed === 'gone') await flow.step('ship', did('ship'));
  await flow.wait('go', 'go');
});

test.each([
  ['kind', '"charge" is recorded as a step, and the code asks for a sleep'],
  ['gone', 'The step "charge" is recorded, and the code asks for "ship"'],
])('changed code (%s) stops the run before any effect, and both are named', async (how, text) => {
  changed = '';
  effects.length = 0;
  const id = await runs.start(changing, how);
  await runs.asleep(id, 'go');
  changed = how;
  await db.hf.signal(changing, id, 'go');
  const { status, error } = await runs.end(changing, id);
  expect({ status, error }).toEqual({
    status: 'dead_letter',
    error: expect.stringContaining(text),
  });
  expect(effects).toEqual(['charge']);
  // The code is as it was, and the run goes on.
  changed = '';
  await db.hf.retry([id]);
  expect((await runs.end(changing, id)).status).toBe('completed');
});

const hangs = gate();
const late = runs.workflow('late', async (flow) => {
  await flow.transaction('setup', (tx) => tx.query('CREATE TABLE rows (n text)').then(() => null));
  await flow.transaction(
    'once',
    async (tx, { attempt, signal }) => {
      await tx.query('INSERT INTO rows VALUES ($1)', [`try ${attempt}`]);
      if (attempt === 1) {
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        await hangs.opened;
      }
    },
    { timeout: 100, maxAttempts: 9, retry: SOON },
  );
  // The first try goes on in vain.
  await flow.step('open', () => hangs.open());
  await flow.sleep('a while', 20);
  return flow.step('read', async () => db.rows('SELECT n FROM rows'));
});

test('a transaction that overran its time limit never commits', async () => {
  const { result } = await runs.ran(late);
  expect(result).toHaveLength(1);
  expect(result).not.toEqual([{ n: 'try 1' }]);
});

let lent: pg.PoolClient | null = null;
const bounded = runs.workflow('bounded', async (flow) => {
  const said = await flow.transaction('write', async (tx) => {
    lent = tx;
    await tx.query('CREATE TABLE bounded (n int)');
    const words = ['COMMIT', ' -- x\n/* y */ rollback;', 'BEGIN', 'end', 'ROLLBACK TO SAVEPOINT a'];
    await tx.query('SAVEPOINT a');
    const refused = words.map((text) => tx.query(text).then(() => 'sent', String));
    const release = () => tx.release();
    return [
      ...(await Promise.all(refused)),
      String(await Promise.resolve().then(release).catch(String)),
    ];
  });
  return { said, after: await lent?.query('SELECT 1').then(() => 'sent', String) };
});

test('what is done on the tx of a step stays inside of its transaction', async () => {
  const { result } = await runs.ran(bounded);
  const { said, after } = result as { said: string[]; after: string };
  const refused = (word: string) =>
    expect.stringMatching(new RegExp(`${word} was refused in the transaction "write"`));
  expect(said).toEqual([
    ...['COMMIT', 'ROLLBACK', 'BEGIN', 'END'].map(refused),
    'sent',
    refused('release\\(\\)'),
  ]);
  expect(after).toContain('is over, so a query on its tx was refused');
  expect(await db.rows('SELECT * FROM bounded')).toEqual([]);
});

let cuts = 0;
const cutOff = runs.workflow('cut_off', async (flow) =>
  flow.transaction(
    'write',
    async (tx) => {
      const { rows } = await tx.query('SELECT pg_backend_pid() AS pid');
      if (cuts++ === 0) await db.rows('SELECT pg_terminate_backend($1)', [rows[0].pid]);
      return (await tx.query('SELECT 42 AS n')).rows[0].n as number;
    },
    { maxAttempts: 1 },
  ),
);

test('a transaction whose connection is cut is tried again, although it has one try', async () => {
  expect((await runs.ran(cutOff)).result).toBe(42);
  const message = 'a step lost its connection to the database, and is tried again unspent';
  expect(runs.log.lines).toContainEqual(expect.objectContaining({ message }));
});

const mistaken = runs.workflow('mistaken', async (flow, what: string) => {
  charged.push(await flow.step('charge', () => what, { undo: () => charged.push(`undo ${what}`) }));
  if (what === 'name') await flow.step(5 as never, () => 1);
  if (what === 'option') await flow.step('mail', () => 1, { attempts: 3 } as never);
  return flow.sleep('long', 'soon' as never);
});

test('a mistake in what the body asks for stops the run at once, and nothing is undone', async () => {
  const ended = await Promise.all(['name', 'option', 'time'].map((one) => runs.ran(mistaken, one)));
  expect(ended.map(({ status }) => status)).toEqual(['dead_letter', 'dead_letter', 'dead_letter']);
  expect(ended.map(({ error }) => error)).toEqual([
    expect.stringMatching(
      /name of a step must be a string, got 5; nothing was done; use .* "charge"/,
    ),
    expect.stringMatching(/flow.step\("mail"\) has no option "attempts"/),
    expect.stringMatching(/the duration of flow.sleep\(\)/),
  ]);
  expect(charged.filter((one) => one.startsWith('undo'))).toEqual([]);
});

const wordy = runs.workflow('wordy', async (_, what: string) =>
  what === 'nul' ? 'a\0b' : 'x'.repeat(2_000_000),
);

test('a result that cannot be kept is told of, as that of a job', async () => {
  expect(await runs.ran(wordy, 'large')).toMatchObject({ status: 'completed', result: null });
  expect(await runs.ran(wordy, 'nul')).toMatchObject({ status: 'completed', result: null });
  const told = runs.log.lines.filter(({ message }) =>
    /^the result of a handler/.test(String(message)),
  );
  expect(told).toMatchObject([{ facts: { type: 'wordy' } }]);
});

const hostile = runs.workflow('hostile', async (flow) =>
  flow.step(
    'throws',
    ({ attempt }) => {
      if (attempt > 1) return attempt;
      const refuse = () => {
        throw new TypeError('nobody may look');
      };
      throw new Proxy({}, { get: refuse, getPrototypeOf: refuse, has: refuse, ownKeys: refuse });
    },
    { retry: SOON },
  ),
);

test('whatever a step throws, it is tried again as its options say', async () => {
  expect((await runs.ran(hostile)).result).toBe(2);
});

const talkative = runs.workflow('talkative', async (flow) =>
  flow.step('charge', ({ attempt }) => {
    if (attempt === 1) throw new Error('no funds\nsecond line');
    return attempt;
  }),
);

test('the log has the first line of what a step threw', async () => {
  const { id, result } = await runs.ran(talkative);
  expect(result).toBe(2);
  const about = runs.log.lines.filter(({ facts }) => (facts as { job?: string }).job === id);
  expect(about.filter(({ message }) => message === 'a step failed')).toMatchObject([
    { level: 'warn', facts: { step: 'charge', attempt: 1, err: 'no funds' } },
  ]);
});

let shown: unknown = null;
const unheard = runs.workflow('unheard', async (flow) => {
  const slow = flow.step('slow', () => new Promise((resolve) => setTimeout(resolve, 50)));
  const fails = flow.step('fails', () => Promise.reject(new Error('sold out')), { maxAttempts: 1 });
  void flow.sleep('mistaken', 'soon' as never);
  await slow;
  await fails.catch((error) => {
    shown = error;
  });
  return 'heard in the end';
});

test('what fails while the body waits for something else does not end the process', async () => {
  const lost: unknown[] = [];
  const note = (error: unknown) => void lost.push(error);
  process.on('unhandledRejection', note);
  const { result } = await runs.ran(unheard);
  process.off('unhandledRejection', note);
  expect(result).toBe('heard in the end');
  expect(String(shown)).toContain('sold out');
  expect(lost).toEqual([]);
  const said = { level: 'warn', message: 'a step failed for good' };
  const facts = expect.objectContaining({ step: 'fails', attempt: 1, err: 'sold out' });
  expect(runs.log.lines).toContainEqual({ ...said, facts });
});

const findTheLabel = () => {
  throw new TypeError('no label');
};
const blamed = runs.workflow(
  'blamed',
  async (flow, where) => {
    // Its undo takes a turn of its own, so the error comes from its record.
    let undos = 0;
    await flow.step('charge', () => 1, {
      undo: () => {
        if (++undos === 1) throw new Error('the bank is closed');
      },
      retry: { base: 300, cap: 300 },
    });
    if (where === 'step') await flow.step('label', findTheLabel, { maxAttempts: 1 });
    findTheLabel();
  },
  { maxAttempts: 1 },
);

test.each(['step', 'body'])('a dead letter says where the %s threw', async (where) => {
  const { status, error } = await runs.ran(blamed, where);
  expect(status).toBe('dead_letter');
  expect(error).toContain('not undone: none');
  expect(error).toMatch(/at findTheLabel \(.*steps\.test\.ts/);
});
