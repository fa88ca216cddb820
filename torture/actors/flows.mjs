// The workflows of the torture. A run writes what it does in its transactional steps, waits for two signals of one name and
// for its parcels, and undoes what it did if it fails for good or is cancelled. The checker reads what it wrote.
import { setTimeout as sleep } from 'node:timers/promises';

/** Both of a run, one after the other. */
export const SIGNALS = [1, 2];

/** A database that is away is no failure of a step. */
const PATIENT = { maxAttempts: 1_000, retry: () => 100 };

/** By the body of this version. */
const write = (flow, version, what, facts) => (tx) =>
  tx.query('INSERT INTO torture.flows (run, what, version, facts) VALUES ($1, $2, $3, $4)', [
    flow.id,
    what,
    version,
    facts === undefined ? null : JSON.stringify(facts),
  ]);

const act = (flow, version, what, ms = 0) =>
  flow.transaction(
    what,
    async (tx) => {
      await write(flow, version, what)(tx);
      if (ms > 0) await sleep(ms);
    },
    {
      undo: async (tx) => void (await write(flow, version, `undo ${what}`)(tx)),
      ...PATIENT,
    },
  );

/** Older runs begin with another step: a body of another version would stop at once. */
const OPENINGS = { 1: 'reserve', 2: 'book' };

const bodyOf = (version, { parcel, DeadLetter }) =>
  async function body(flow, order) {
    await act(flow, version, OPENINGS[version]);
    const [paid] = await Promise.all([
      flow.step('charge', async ({ key }) => {
        if (order.ms) await sleep(order.ms);
        return key;
      }),
      act(flow, version, 'pack', order.packMs),
    ]);
    const first = await flow.wait('first', 'go');
    if (order.nap) await flow.sleep('nap', order.nap);
    const inputs = Array.from({ length: order.parcels }, (_, n) => ({ op: order.op, n }));
    const note = (what, facts) =>
      flow.transaction(
        what,
        async (tx) => void (await write(flow, version, what, facts)(tx)),
        PATIENT,
      );
    const [, second] = await Promise.all([
      // At once: in a later turn there is more to be heard of children that were counted too early.
      flow.children('parcels', parcel, inputs).then((parcels) => note('arrived', { parcels })),
      flow.wait('second', ['go', 'stop']),
    ]);
    await note('heard', { paid, first, second: second.value });
    if (order.fails) throw new DeadLetter('meant to');
    return first;
  };

/** @param {{ parcel: object, DeadLetter: typeof Error }} product */
export const bodies = (product) => ({ 1: bodyOf(1, product), 2: bodyOf(2, product) });

/** Sends what the runs wait for and cancels some of them: each until it has an answer. */
export async function drive({ hf, pool, jobs, random, history }, ids, { cancels, op }) {
  const again = async (what, ask) => {
    for (;;) {
      try {
        return await ask();
      } catch (error) {
        if (error.code === 'RUN_GONE') return null;
        history.record('drive', 'unknown', {
          what,
          code: error.code,
          message: String(error.message),
        });
        await sleep(50 + random.next() * 150);
      }
    }
  };
  const inTransaction = async (work) => {
    const client = await pool.connect();
    let broken = true;
    try {
      await client.query('BEGIN');
      await work(client);
      if (random.chance(0.3)) await sleep(random.integer(1, 400));
      await client.query('COMMIT');
      broken = false;
    } finally {
      client.release(broken);
    }
  };
  const send = (id, n) =>
    again('signal', () => {
      const key = `${op}:${n}`;
      if (random.chance(0.5)) return hf.signal(jobs.checkout, id, 'go', n, { key });
      return inTransaction((tx) => hf.signal(jobs.checkout, id, 'go', n, { key, tx }));
    });
  for (const id of ids) {
    await send(id, SIGNALS[0]);
    // One that has done nothing yet would simply be cancelled.
    const begun = 'SELECT 1 FROM holdfast.inbox_steps WHERE run_id = $1 LIMIT 1';
    if (cancels && (await again('look', () => pool.query(begun, [id])))?.rows.length > 0) {
      const ended = await again('cancel', () => hf.cancel([id], { undo: true, queue: 'inbox' }));
      history.record('cancel', 'ok', { of: id, moved: ended.length });
    }
    // Often the last thing that the run waits for.
    if (random.chance(0.6)) await sleep(random.integer(1, 1_200));
    await send(id, SIGNALS[1]);
    history.record('signals', 'ok', { of: id });
  }
}
