/**
 * Every verb in every situation that a job can be in, against the table of transitions: a verb moves the
 * job as the table says, or it changes not one byte of it and its answer says that nothing moved.
 */
import { beforeEach, describe, expect, test } from 'vitest';
import { type Duration, job } from '../../packages/holdfast/src/index.js';
import { finishedByIds } from '../../packages/holdfast/src/inspect/job/archive.js';
import {
  type RowState,
  TRANSITIONS,
  type Transition,
  type Verb,
} from '../../packages/holdfast/src/job/states.js';
import { isolate, markStarted } from '../../packages/holdfast/src/lease/marks.js';
import { renew } from '../../packages/holdfast/src/lease/renew.js';
import { recover } from '../../packages/holdfast/src/maintenance/recover.js';
import { cancel } from '../../packages/holdfast/src/operate/cancel.js';
import { discard, retry } from '../../packages/holdfast/src/operate/dead-letters.js';
import { replay } from '../../packages/holdfast/src/operate/replay.js';
import { UNCHANGED, updateWaiting } from '../../packages/holdfast/src/operate/update.js';
import { cancelOwn } from '../../packages/holdfast/src/settle/cancel.js';
import { complete } from '../../packages/holdfast/src/settle/complete.js';
import { deadLetter } from '../../packages/holdfast/src/settle/dead-letter.js';
import { fail } from '../../packages/holdfast/src/settle/fail.js';
import { release, snooze } from '../../packages/holdfast/src/settle/release.js';
import { restart } from '../../packages/holdfast/src/workflow/rows/record.js';
import { askToUndo, send } from '../../packages/holdfast/src/workflow/rows/signal.js';
import { suspend } from '../../packages/holdfast/src/workflow/rows/suspend.js';
import { claimAs, heldOf } from '../support/claiming.js';
import { call } from '../support/cli-run.js';
import { INBOX, testDatabase } from '../support/database.js';

const db = testDatabase();
const ME = 'worker-me';
const OTHER = 'worker-other';
const NEXT = 'worker-next';
const receipt = job('send_receipt');
const types = ['send_receipt'];

beforeEach(async () => {
  await db.rows('DELETE FROM holdfast.inbox');
  await db.rows('DELETE FROM holdfast.inbox_archive');
  await db.rows('DELETE FROM holdfast.inbox_claims');
  await db.rows('DELETE FROM holdfast.workers');
  await db.rows('DELETE FROM holdfast.inbox_steps');
  await db.rows('DELETE FROM holdfast.inbox_signals');
});

interface Held {
  readonly id: string;
  readonly generation: number;
}

async function enqueue(options: { delay?: Duration; maxAttempts?: number } = {}): Promise<string> {
  return (
    await db.hf.enqueue(receipt, { orderId: 9182 }, { partitionKey: 'order:9182', ...options })
  ).id;
}

async function claimed(by: string, options: { maxAttempts?: number } = {}): Promise<Held> {
  await enqueue(options);
  const [row] = await claimAs(db.engine, by, { types });
  return heldOf(row!);
}

async function expire(held: Held): Promise<Held> {
  await db.rows(
    `UPDATE holdfast.inbox SET lease_expires_at = now() - interval '1 second' WHERE id = $1`,
    [held.id],
  );
  return held;
}

const WHY = { error: 'Error: no such order', summary: 'Error: no such order' };

async function deadLettered(): Promise<Held> {
  const held = await claimed(ME);
  await deadLetter(db.engine, INBOX, ME, [{ ...held, ...WHY }]);
  return held;
}

const WAIT = { name: 'approval', kind: 'w', nth: 0, signals: ['approved'] } as const;
const ownerOf = (held: Held) => ({ workerId: ME, ...held });
const suspended = ({ id, generation }: Held) =>
  suspend(db.engine, INBOX, [
    { owner: ownerOf({ id, generation }), place: 0, first: true, waits: [WAIT] },
  ]);

async function waiting(): Promise<Held> {
  const held = await claimed(ME);
  expect((await suspended(held)).get(held.id)?.state).toBe('asleep');
  return held;
}

/** It was woken: it may go on. */
async function woken(): Promise<Held> {
  const held = await waiting();
  await db.rows(`SELECT holdfast.wake_run('inbox', $1)`, [held.id]);
  return held;
}

interface Situation {
  readonly name: string;
  readonly state: RowState;
  readonly due?: true;
  /** The verbs' owner and generation are the row's, and its lease lives. */
  readonly owned?: true;
  /** The owner is gone: its lease expired, or the registry calls it dead. */
  readonly orphaned?: 'expired' | 'dead';
  /** A run of a workflow that has taken a step. */
  readonly run?: true;
  /** All attempts are used up, and a crash would be the job's own. */
  readonly spent?: true;
  readonly make: () => Promise<Held>;
}

const SITUATIONS: readonly Situation[] = [
  {
    name: 'pending and due',
    state: 'pending',
    due: true,
    make: async () => ({ id: await enqueue(), generation: 0 }),
  },
  {
    name: 'pending, due again after a release',
    state: 'pending',
    due: true,
    make: async () => {
      const held = await claimed(ME);
      await release(db.engine, INBOX, ME, [held]);
      return held;
    },
  },
  {
    name: 'pending, not due yet',
    state: 'pending',
    make: async () => ({ id: await enqueue({ delay: '1h' }), generation: 0 }),
  },
  { name: 'waiting for a signal', state: 'waiting', run: true, make: waiting },
  {
    name: 'pending and due, a run that waited',
    state: 'pending',
    due: true,
    run: true,
    make: woken,
  },
  {
    name: 'processing, mine, a run that waited',
    state: 'processing',
    owned: true,
    run: true,
    make: async () => {
      await woken();
      const [row] = await claimAs(db.engine, ME, { types });
      return heldOf(row!);
    },
  },
  { name: 'processing, mine', state: 'processing', owned: true, make: () => claimed(ME) },
  {
    name: 'processing, mine, last attempt',
    state: 'processing',
    owned: true,
    spent: true,
    make: () => claimed(ME, { maxAttempts: 1 }),
  },
  {
    name: 'processing, mine, lease expired',
    state: 'processing',
    orphaned: 'expired',
    make: async () => expire(await claimed(ME)),
  },
  {
    name: 'processing, mine, lease expired on the last attempt, which ran alone',
    state: 'processing',
    orphaned: 'expired',
    spent: true,
    make: async () => {
      const held = await claimed(ME, { maxAttempts: 1 });
      await isolate(db.engine, INBOX, ME, held);
      await markStarted(db.engine, INBOX, ME, held);
      return expire(held);
    },
  },
  {
    name: 'processing, mine, lease expired on the last attempt, in company',
    state: 'processing',
    orphaned: 'expired',
    make: async () => expire(await claimed(ME, { maxAttempts: 1 })),
  },
  { name: "processing, another worker's", state: 'processing', make: () => claimed(OTHER) },
  {
    name: "processing, a dead worker's",
    state: 'processing',
    orphaned: 'dead',
    make: async () => {
      const held = await claimed(OTHER);
      await db.rows(`INSERT INTO holdfast.workers (id, status) VALUES ($1, 'dead')`, [OTHER]);
      return held;
    },
  },
  {
    name: 'processing, mine, but asked for an older generation',
    state: 'processing',
    make: async () => {
      const old = await claimed(ME);
      await release(db.engine, INBOX, ME, [old]);
      await claimAs(db.engine, ME, { types });
      return old;
    },
  },
  { name: 'dead letter', state: 'dead_letter', make: deadLettered },
  {
    name: 'archived as completed',
    state: 'completed',
    make: async () => {
      const held = await claimed(ME);
      await complete(db.engine, INBOX, ME, [held]);
      return held;
    },
  },
  {
    name: 'archived as cancelled',
    state: 'cancelled',
    make: async () => {
      const held = await claimed(ME);
      await cancelOwn(db.engine, INBOX, ME, [{ ...held, reason: 'not wanted' }]);
      return held;
    },
  },
  {
    name: 'archived as discarded',
    state: 'discarded',
    make: async () => {
      const held = await deadLettered();
      await discard(db.plain, INBOX, [held.id]);
      return held;
    },
  },
];

/** Does what the table asks for beside the state hold in this situation? */
function allowed(move: Transition, situation: Situation): boolean {
  const spent = situation.spent === true;
  if (move.verb === 'undo') return situation.run === true;
  if (move.by === 'owner') {
    if (!situation.owned) return false;
    return move.verb !== 'fail' || (move.to === 'dead_letter') === spent;
  }
  if (move.by === 'worker') {
    return move.from === 'pending' ? situation.due === true : situation.orphaned === 'expired';
  }
  if (move.by === 'maintenance') {
    return situation.orphaned !== undefined && (move.to === 'dead_letter') === spent;
  }
  return true;
}

/** Each verb on one job; the answer is the states of the jobs that it says it moved. */
const VERBS: Record<Verb, (held: Held) => Promise<unknown[]>> = {
  claim: async () => (await claimAs(db.engine, NEXT, { types })).map(idOf),
  renew: async (held) => (await renew(db.engine, INBOX, ME, [held], 90_000)).map(({ id }) => id),
  isolate: async (held) => ((await isolate(db.engine, INBOX, ME, held)) ? [held.id] : []),
  complete: (held) => complete(db.engine, INBOX, ME, [held]),
  fail: async (held) => (await fail(db.engine, INBOX, ME, [{ ...held, ...FAILURE }])).map(idOf),
  dead_letter: async (held) =>
    (await deadLetter(db.engine, INBOX, ME, [{ ...held, ...WHY }])).map(({ id }) => id),
  release: async (held) => (await release(db.engine, INBOX, ME, [held])).map(({ id }) => id),
  snooze: async (held) =>
    (await snooze(db.engine, INBOX, ME, [{ ...held, delayMs: 60_000 }])).map(idOf),
  cancelOwn: (held) => cancelOwn(db.engine, INBOX, ME, [{ ...held, reason: 'not wanted' }]),
  recover: async () =>
    (await recover(db.engine, INBOX, { limit: 1_000, recoverer: NEXT })).map(idOf),
  retry: (held) => retry(db.plain, INBOX, [held.id]),
  discard: (held) => discard(db.plain, INBOX, [held.id]),
  cancel: (held) => cancel(db.plain, INBOX, [held.id], 'cancelled by an operator'),
  update: async (held) =>
    (await updateWaiting(db.plain, INBOX, held.id, { ...UNCHANGED, priority: 1 })) ? [held.id] : [],
  wake: async (held) =>
    (await updateWaiting(db.plain, INBOX, held.id, { ...UNCHANGED, delayMs: 0 })) ? [held.id] : [],
  suspend: async (held) =>
    (await suspended(held)).get(held.id)?.state === 'asleep' ? [held.id] : [],
  restart: async (held) =>
    (await restart(db.engine, INBOX, ownerOf(held), '{}', 1)) ? [held.id] : [],
  signal: async ({ id }) => {
    const before = await isWaiting(id);
    const signal = { run: id, name: 'approved', value: null, key: null, now: true };
    const sent = await send(db.plain, INBOX, signal).catch((error) => {
      expect(error.code).toBe('RUN_GONE');
      return false;
    });
    // One that does not wait for it keeps it.
    expect(await db.rows('SELECT FROM holdfast.inbox_signals')).toHaveLength(sent ? 1 : 0);
    return before && !(await isWaiting(id)) ? [id] : [];
  },
  undo: (held) => askToUndo(db.plain, INBOX, [held.id], 'cancelled by an operator'),
  replay: (held) => replayed(held.id, { completed: true }),
  restore: (held) => replayed(held.id, { completed: true, restore: true }),
};

const isWaiting = async (id: string) =>
  (
    await db.rows(
      'SELECT FROM holdfast.inbox WHERE id = $1 AND wait_until = available_at AND available_at > now()',
      [id],
    )
  ).length === 1;

/** By the place of its row, as it is found in the archive. */
async function replayed(id: string, how: Parameters<typeof replay>[3]): Promise<string[]> {
  const found = await finishedByIds(db.plain, INBOX, [id]);
  const answers = await replay(db.plain, INBOX, found, how);
  return answers.filter(({ moved }) => moved).map(idOf);
}
const FAILURE = { delayMs: 5_000, error: 'Error: no paper', summary: 'Error: no paper' };
const idOf = (row: { id: string }) => row.id;

interface Seen {
  readonly state: RowState;
  readonly attempts: number;
  readonly generation: number;
  /** The row with its place and the transaction that wrote it: any write at all shows here. */
  readonly bytes: string;
}

/** The job wherever it is; it must be in one place only. */
async function look(id: string): Promise<Seen> {
  const rows = await db.rows<Seen>(
    `SELECT CASE WHEN wait_until = available_at AND available_at > now() THEN 'waiting'
       ELSE status::text END AS state, attempts, lease_generation::int AS generation,
       concat_ws(' ', ctid, xmin, i) AS bytes
     FROM holdfast.inbox AS i WHERE id = $1
     UNION ALL
     SELECT CASE status WHEN 'dead_letter' THEN 'discarded' ELSE status::text END, attempts,
       lease_generation::int, concat_ws(' ', ctid, xmin, a)
     FROM holdfast.inbox_archive AS a WHERE id = $1`,
    [id],
  );
  expect(rows).toHaveLength(1);
  return rows[0]!;
}

/** How a verb that moved the job changes its attempts; every other verb leaves them. */
function attemptsAfter(verb: Verb, before: Seen, situation: Situation): number {
  if (['retry', 'replay', 'suspend', 'restart'].includes(verb)) return 0;
  if (verb === 'release' || verb === 'snooze') return before.attempts - 1;
  if (verb === 'claim') return before.attempts + (situation.orphaned ? 0 : 1);
  if (verb === 'recover') return before.attempts - (situation.spent ? 0 : 1);
  return before.attempts;
}

const reached = new Set<Transition>();

/** The calls of a worker in another language, on the same job. The answer is the state that the call names, unless it is lost. */
const settleBySql =
  (call: string, more = '') =>
  async ({ id, generation }: Held) => {
    const [row] = await db.rows<{ state: string }>(
      `SELECT holdfast.${call}($1, $2, $3${more}) AS state`,
      [ME, id, generation],
    );
    return row?.state === 'lost' ? [] : [id];
  };

const BY_SQL: Partial<typeof VERBS> = {
  claim: async () => {
    const [next] = await db.rows<{ id: string }>(
      `SELECT holdfast.worker_register(ARRAY['send_receipt']) AS id`,
    );
    return (await db.rows<Held>(`SELECT id FROM holdfast.worker_claim($1)`, [next?.id])).map(idOf);
  },
  renew: async ({ id, generation }) =>
    (
      await db.rows<Held>(
        'SELECT id FROM holdfast.worker_renew($1, ARRAY[$2::uuid], ARRAY[$3::bigint]) AS id',
        [ME, id, generation],
      )
    ).map(idOf),
  complete: settleBySql('worker_complete'),
  fail: settleBySql('worker_fail', `, 'Error: no paper', '5 seconds'`),
  dead_letter: settleBySql('worker_dead_letter', `, 'Error: no such order'`),
  release: settleBySql('worker_release'),
  snooze: settleBySql('worker_snooze', `, '1 minute'`),
  cancelOwn: settleBySql('worker_cancel', `, 'not wanted'`),
};

const CELLS = [
  ...Object.entries(VERBS).map(([verb, act]) => ({ verb: verb as Verb, way: verb, act })),
  ...Object.entries(BY_SQL).map(([verb, act]) => ({
    ...{ verb: verb as Verb, way: `${verb}, by the protocol in SQL`, act },
  })),
];

describe.each(SITUATIONS)('a job that is $name', (situation) => {
  test.each(CELLS)('$way', async ({ verb, act }) => {
    const held = await situation.make();
    const before = await look(held.id);
    expect(before.state).toBe(situation.state);
    const moves = TRANSITIONS.filter(
      (move) => move.verb === verb && move.from === situation.state && allowed(move, situation),
    );

    const answer = await act(held);

    const after = await look(held.id);
    if (moves.length === 0) {
      expect(answer).toEqual([]);
      expect(after).toEqual(before);
      return;
    }
    expect(moves).toHaveLength(1);
    reached.add(moves[0]!);
    expect(answer).toEqual([held.id]);
    expect(after.state).toBe(moves[0]?.to);
    expect(after.bytes).not.toBe(before.bytes);
    expect(after.attempts).toBe(attemptsAfter(verb, before, situation));
    expect(after.generation).toBe(before.generation + (verb === 'claim' ? 1 : 0));
  });
});

const SETTLES = ['complete', 'fail', 'dead_letter', 'release', 'snooze', 'cancelOwn'] as const;

test.each(SETTLES)('%s leads to the same row in both ways, but for times', async (verb) => {
  const left: unknown[] = [];
  for (const act of [VERBS[verb], BY_SQL[verb]]) {
    const held = await claimed(ME, { maxAttempts: 2 });
    expect(await act?.(held)).toEqual([held.id]);
    const rows = await db.rows(
      `SELECT to_jsonb(i) - '{id,position,created_at,available_at,claimed_at}'::text[]
         || jsonb_build_object('history', i.history #- '{0,at}',
           'due', round(extract(epoch FROM i.available_at - now()))) AS row
       FROM holdfast.inbox AS i WHERE id = $1
       UNION ALL
       SELECT to_jsonb(a) - '{id,created_at,claimed_at,completed_at}'::text[]
       FROM holdfast.inbox_archive AS a WHERE id = $1`,
      [held.id],
    );
    left.push(rows);
    await db.rows('DELETE FROM holdfast.inbox');
  }
  expect(left[1]).toHaveLength(1);
  expect(left[1]).toEqual(left[0]);
});

test('every transition of the table was taken by some cell above', () => {
  expect(TRANSITIONS.filter((move) => !reached.has(move))).toEqual([]);
});

test('fail and recover tell where each job went', async () => {
  const first = await claimed(ME);
  expect(await fail(db.engine, INBOX, ME, [{ ...first, ...FAILURE }])).toMatchObject([
    { id: first.id, status: 'pending' },
  ]);
  const last = await claimed(ME, { maxAttempts: 1 });
  expect(await fail(db.engine, INBOX, ME, [{ ...last, ...FAILURE }])).toMatchObject([
    { id: last.id, status: 'dead_letter' },
  ]);
  const lone = await claimed(ME, { maxAttempts: 1 });
  await isolate(db.engine, INBOX, ME, lone);
  await markStarted(db.engine, INBOX, ME, lone);
  await expire(lone);
  expect(await recover(db.engine, INBOX, { limit: 10, recoverer: NEXT })).toMatchObject([
    { id: lone.id, status: 'dead_letter' },
  ]);
});

test('a batch moves exactly the jobs that are still its own, and names them', async () => {
  await db.hf.enqueueMany(Array.from({ length: 6 }, () => receipt.item({})));
  const held = (await claimAs(db.engine, ME, { types })).map(heldOf);
  await expire(held[1]!);
  await cancel(db.plain, INBOX, [held[4]!.id], 'not wanted');
  const stale = { ...held[2]!, generation: 7 };
  const moved = await complete(db.engine, INBOX, ME, [
    ...held.slice(0, 2),
    stale,
    ...held.slice(3),
  ]);
  expect(moved.sort()).toEqual([held[0]!.id, held[3]!.id, held[5]!.id].sort());
  expect((await look(held[1]!.id)).state).toBe('processing');
  expect((await look(held[2]!.id)).state).toBe('processing');
});

describe('a run that waits', () => {
  const change = (id: string, changes: object) =>
    updateWaiting(db.plain, INBOX, id, { ...UNCHANGED, ...changes });
  const woke = async (id: string) => {
    await send(db.plain, INBOX, { run: id, name: 'approved', value: null, key: null, now: true });
    return !(await isWaiting(id));
  };

  test('is woken by its signal after a change of its priority, and after a turn that found nothing', async () => {
    const { id } = await waiting();
    expect(await change(id, { priority: 1 })).not.toBeNull();
    expect(await change(id, { delayMs: 0 })).not.toBeNull();
    const [row] = await claimAs(db.engine, ME, { types });
    const again = await suspend(db.engine, INBOX, [
      { owner: ownerOf(heldOf(row!)), place: 0, first: false, waits: [] },
    ]);
    expect(again.get(id)).toEqual({ state: 'asleep', dueInMs: null });
    expect(await woke(id)).toBe(true);
  });

  test('is not put off, and has no other input: its signal would not wake it, its steps would not fit', async () => {
    const { id } = await waiting();
    const before = await look(id);
    expect(await change(id, { delayMs: 3_600_000 })).toBeNull();
    expect(await change(id, { runAt: '9999-01-01T00:00:00Z' })).toBeNull();
    expect(await change(id, { payload: '{}' })).toBeNull();
    expect(await look(id)).toEqual(before);
    await expect(db.hf.update(id, { delay: '1h' })).rejects.toThrow(
      /a run that has begun, of which/,
    );
    expect(await woke(id)).toBe(true);
  });

  test('and was cancelled goes on at once when it is brought back', async () => {
    const { id } = await waiting();
    await cancel(db.plain, INBOX, [id], 'by mistake');
    expect(await replayed(id, {})).toEqual([id]);
    expect((await claimAs(db.engine, NEXT, { types })).map(idOf)).toEqual([id]);
  });

  test('wakes while its queue is paused, and runs when that is resumed', async () => {
    const { id } = await waiting();
    await db.hf.pause('inbox', { audit: false });
    expect(await woke(id)).toBe(true);
    expect(await claimAs(db.engine, NEXT, { types })).toEqual([]);
    await db.hf.resume('inbox', { audit: false });
    expect((await claimAs(db.engine, NEXT, { types })).map(idOf)).toEqual([id]);
  });

  test('is cancelled by an act on many, and left by a retry and a discard', async () => {
    const { id } = await waiting();
    expect(await retry(db.plain, INBOX, [id])).toEqual([]);
    expect(await discard(db.plain, INBOX, [id])).toEqual([]);
    expect(await isWaiting(id)).toBe(true);
    const ran = await call(['jobs', 'cancel', '--type', 'send_receipt', '--yes'], {
      env: { DATABASE_URL: db.url },
    });
    expect(ran.out).toBe('1 cancelled\n');
    expect((await look(id)).state).toBe('cancelled');
  });
});
