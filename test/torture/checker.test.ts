/**
 * The checker of the torture on histories that were written by hand: a good one passes, and each of the bad ones
 * is found by the part of the checker that is there for it.
 */
import { expect, test } from 'vitest';
import { checkAll } from '../../torture/check/index.mjs';

type Row = Record<string, unknown>;

interface Story {
  history: Row[];
  state: Record<string, Row[]>;
  run: Record<string, unknown>;
}

const OWNER = 'vm-101-aa';
const OTHER = 'vm-202-bb';
const MINUTE = 60_000;

let clock = 0;
const line = (facts: Row): Row => ({ t: ++clock, who: 'worker-1.1', pid: 101, ...facts });

const run = (job: string, gen = 1, facts: Row = {}): Row[] => [
  line({ op: 'run', phase: 'invoke', job, gen, ...facts }),
  line({ op: 'run', phase: 'ok', job, gen, ...facts }),
];
const completed = (job: string, gen = 1) =>
  line({ op: 'settle', phase: 'ok', how: 'completed', job, gen });

let seq = 0;
const change = (kind: string, job: string, facts: Row = {}): Row => {
  seq++;
  const of = { queue: 'inbox', key: job, position: 1, generation: 1, tx: String(seq) };
  const was = { was_status: 'processing', was_owner: OWNER, was_expired: false };
  const before = kind === 'enqueued' || kind === 'claimed' ? { was_status: 'pending' } : was;
  return { seq, at: seq, kind, job, crashed: false, ...of, ...before, ...facts };
};

/** Enqueued, claimed and completed, in a queue that is read by time. */
const life = (job: string, facts: Row = {}): Row[] => [
  change('enqueued', job, { generation: 0, ...facts }),
  change('claimed', job, { owner: OWNER, ...facts }),
  change('gone', job, facts),
];

const row = (id: string, type: string, facts: Row = {}): Row => ({
  ...{ id, type, queue: 'inbox', status: 'completed', generation: 1, owner: OWNER, key: id },
  ...{ attempts: 1, version: 1, idem: null, payload: {}, history: null, at: MINUTE },
  ...facts,
});

/** Two transactional jobs of an order, a mail, a parent with two children, and two jobs of a key. */
function good(): Story {
  clock = 0;
  seq = 0;
  const keyed = (n: number) => ({ queue: 'lines', key: 'k', position: 10 + n });
  return {
    history: [
      line({ op: 'worker', phase: 'ok', pid: 303 }),
      line({ op: 'enqueue', phase: 'invoke', of: 'o1', jobs: 2, inTransaction: true }),
      line({ op: 'enqueue', phase: 'unknown', of: 'o1' }),
      line({ op: 'enqueue', phase: 'ok', of: 'o1', ids: ['a', 'b'] }),
      line({ op: 'enqueue', phase: 'invoke', of: 'o2', jobs: 1, inTransaction: true }),
      line({ op: 'enqueue', phase: 'fail', of: 'o2', ids: [] }),
      ...run('a'),
      completed('a'),
      ...run('b'),
      completed('b'),
      line({ op: 'run', phase: 'invoke', job: 'm', gen: 1 }),
      line({ op: 'effect', phase: 'invoke', job: 'm', gen: 1 }),
      line({ op: 'effect', phase: 'ok', job: 'm', gen: 1 }),
      line({ op: 'run', phase: 'ok', job: 'm', gen: 1 }),
      completed('m'),
      ...run('p'),
      ...run('s0'),
      ...run('s1'),
      line({ op: 'register', phase: 'note', job: 'm', token: 1, by: 'x', accepted: true }),
      line({ op: 'register', phase: 'note', job: 'm', token: 2, by: 'y', accepted: true }),
      line({ op: 'register', phase: 'note', job: 'm', token: 1, by: 'x', accepted: false }),
      line({ op: 'signal', child: 101, signal: 'SIGKILL' }),
      line({ op: 'process', phase: 'note', child: 101, name: 'worker-1.1', signal: 'SIGKILL' }),
    ],
    state: {
      jobs: [
        row('a', 'pay', { idem: 'o1#0' }),
        row('b', 'pay', { idem: 'o1#1' }),
        row('m', 'mail'),
        row('p', 'parent', { payload: { children: 2 } }),
        row('c0', 'child', { payload: { parent: 'p', n: 0 } }),
        row('c1', 'child', { payload: { parent: 'p', n: 1 } }),
        row('s0', 'step', { queue: 'lines', key: 'k', payload: { n: 0 } }),
        row('s1', 'step', { queue: 'lines', key: 'k', payload: { n: 1 } }),
      ],
      idempotency: [{ key: 'o1#0', job: 'a' }],
      markers: [{ job: 'm', name: 'mail', generation: 1 }],
      claims: [],
      workers: [{ id: OWNER, status: 'alive' }],
      orders: [{ op: 'o1', jobs: 2 }],
      effects: [
        { job: 'a', generation: 1 },
        { job: 'b', generation: 1 },
      ],
      witness: [
        ...['a', 'b', 'm', 'p', 'c0', 'c1'].flatMap((job) => life(job)),
        change('enqueued', 's0', { ...keyed(0), generation: 0 }),
        change('enqueued', 's1', { ...keyed(1), generation: 0 }),
        // One claim took both; the database touched the second first.
        change('claimed', 's1', { ...keyed(1), owner: OWNER, tx: 'run' }),
        change('claimed', 's0', { ...keyed(0), owner: OWNER, tx: 'run' }),
        change('gone', 's0', keyed(0)),
        change('gone', 's1', keyed(1)),
      ],
    },
    run: {
      left: [],
      baseline: { from: MINUTE - 2000, to: MINUTE + 2000 },
      faults: { from: MINUTE, to: MINUTE + 10 },
      healedAt: MINUTE - 500,
      ...{ drainBefore: 100, drainAfter: 90, drainShare: 0.7, wallOffset: 0, maxRssMb: 100 },
      ...{ connectionsBefore: 50, connectionsAfter: 40, maxConnections: 60 },
    },
  };
}

const violationsOf = (story: Story) => checkAll(story).violations;
const jobOf = ({ state }: Story, id: string) => state.jobs?.find((job) => job.id === id) as Row;
const changesOf = ({ state }: Story, job: string) =>
  state.witness?.filter((one) => one.job === job) as Row[];
const drop = (rows: Row[] | undefined, out: (row: Row) => boolean) => {
  for (let at = (rows?.length ?? 0) - 1; at >= 0; at--)
    if (out(rows?.[at] as Row)) rows?.splice(at, 1);
};

test('a history in which all promises were kept passes', () => {
  const { violations, counts } = checkAll(good());
  expect(violations).toEqual([]);
  expect(counts).toMatchObject({
    ...{ accepted: 2, lost: 0, doubled: 0, unknownOutcomes: 1, staleWritesRefused: 1 },
    ...{ transactionalEffects: 2, onceEffects: 1, children: 2, keys: 1 },
  });
});

const BAD: [what: string, spoil: (story: Story) => void, found: RegExp][] = [
  [
    'an acknowledged job is gone',
    ({ state }) => {
      drop(state.jobs, ({ id }) => id === 'a');
      drop(state.effects, ({ job }) => job === 'a');
    },
    /acceptance: o1: job a was acknowledged and is lost/,
  ],
  [
    'an acknowledged job still waits',
    (story) => Object.assign(jobOf(story, 'a'), { status: 'pending' }),
    /acceptance: o1: job a was acknowledged and is pending after the drain/,
  ],
  [
    'a rolled back operation left a job',
    ({ state }) => state.jobs?.push(row('z', 'flaky', { idem: 'o2#0' })),
    /acceptance: o2 was rolled back, and 1 of its jobs exist/,
  ],
  [
    'nobody asked for it',
    ({ state }) => state.jobs?.push(row('z', 'flaky', { idem: 'o9#0' })),
    /acceptance: o9 has jobs and was never asked for/,
  ],
  [
    'the business row is missing',
    ({ state }) => drop(state.orders, () => true),
    /acceptance: o1: the business row and its jobs are not there together/,
  ],
  [
    'two jobs of one idempotency key',
    ({ state }) => state.jobs?.push(row('z', 'flaky', { idem: 'o1#1' })),
    /acceptance: the idempotency key o1#1 stands for several jobs/,
  ],
  [
    'a repeat was acknowledged with other jobs',
    ({ history }) => history.push(line({ op: 'enqueue', phase: 'ok', of: 'o1', ids: ['a', 'x'] })),
    /acceptance: o1 was acknowledged twice, with different jobs/,
  ],
  [
    'a job ran that was never enqueued',
    ({ history }) => history.push(...run('ghost')),
    /ownership: job ghost ran and was never enqueued/,
  ],
  [
    'one generation ran twice',
    ({ history }) => history.push(line({ op: 'run', phase: 'invoke', job: 'a', gen: 1, pid: 9 })),
    /ownership: generation 1 of job a ran in process 101 and again in 9/,
  ],
  [
    'a claim under a live lease',
    (story) => Object.assign(changesOf(story, 'a')[1] as Row, { was_status: 'processing' }),
    /ownership: job a, generation 1: claimed by vm-101-aa under the live lease/,
  ],
  [
    'a generation was left out',
    (story) => Object.assign(changesOf(story, 'a')[1] as Row, { generation: 3 }),
    /ownership: job a, generation 3: claimed after generation 0/,
  ],
  [
    'a completion after the lease was over',
    (story) => Object.assign(changesOf(story, 'a')[2] as Row, { was_expired: true }),
    /ownership: job a, generation 1: gone by vm-101-aa after its lease was over/,
  ],
  [
    'recovered from a live worker',
    ({ state }) =>
      state.witness?.push(
        change('enqueued', 'r', { generation: 0 }),
        change('claimed', 'r', { owner: OWNER }),
        change('pending', 'r', { crashed: true, was_owner_dead: false }),
      ),
    /ownership: job r, generation 1: recovered from vm-101-aa, which is alive/,
  ],
  [
    'a stale attempt reported its completion',
    ({ history }) => history.push(completed('a', 7)),
    /ownership: worker-1.1 completed generation 7 of job a/,
  ],
  [
    'another process had completed it',
    (story) => Object.assign(jobOf(story, 'a'), { owner: OTHER }),
    /ownership: worker-1.1 reported job a completed, and vm-202-bb did/,
  ],
  [
    'a failure that nobody wrote',
    ({ history }) =>
      history.push(line({ op: 'settle', phase: 'ok', how: 'failed', job: 'a', gen: 1 })),
    /ownership: worker-1.1 reported generation 1 of job a failed, and it was not/,
  ],
  [
    'an old build ran a newer payload',
    (story) => {
      Object.assign(jobOf(story, 'a'), { version: 2 });
      for (const one of story.history) if (one.job === 'a') one.build = 1;
    },
    /ownership: .* of version 2 ran in a build that knows version 1/,
  ],
  [
    'the register took a lower token',
    ({ history }) =>
      history.push(
        line({ op: 'register', phase: 'note', job: 'm', token: 1, by: 'x', accepted: true }),
      ),
    /ownership: the register took token 1 of job m after 2/,
  ],
  [
    'two processes had one token',
    ({ history }) =>
      history.push(
        line({ op: 'register', phase: 'note', job: 'm', token: 2, by: 'z', accepted: true }),
      ),
    /ownership: token 2 of job m was used by y and by z/,
  ],
  [
    'an effect happened twice',
    ({ state }) => state.effects?.push({ job: 'a', generation: 1 }),
    /effects: job a \(pay, completed\) has 2 transactional effects/,
  ],
  [
    'an effect of another attempt',
    ({ state }) => Object.assign(state.effects?.[0] as Row, { generation: 4 }),
    /effects: job a: the effect is of generation 4/,
  ],
  [
    'a marked effect ran again',
    ({ history }) => history.push(line({ op: 'effect', phase: 'invoke', job: 'm', gen: 2 })),
    /effects: the effect of job m ran in generation 2, marked in 1/,
  ],
  [
    'a marked effect never happened',
    ({ history }) => drop(history, ({ op }) => op === 'effect'),
    /effects: job m is completed, and its effect never happened/,
  ],
  [
    'a child is there twice',
    ({ state }) => state.jobs?.push(row('c2', 'child', { payload: { parent: 'p', n: 1 } })),
    /effects: job p \(completed\) should have the children \[0,1\] and has \[0,1,1\]/,
  ],
  [
    'a child is missing',
    ({ state }) => drop(state.jobs, ({ id }) => id === 'c1'),
    /effects: job p \(completed\) should have the children \[0,1\] and has \[0\]/,
  ],
  [
    'a job overtook the one before it',
    (story) => Object.assign(changesOf(story, 's1')[1] as Row, { tx: 'own', owner: OTHER }),
    /order: k: job s1 \(generation 1\) was claimed by vm-202-bb while s0 before it/,
  ],
  [
    'jobs of a key left in the wrong order',
    (story) => Object.assign(changesOf(story, 's0')[2] as Row, { tx: 'last', seq: 999 }),
    /order: k: job s1 left before s0/,
  ],
  [
    'two jobs of a key ran at once',
    ({ history }) => {
      const start = history.find(({ op, job }) => op === 'run' && job === 's1') as Row;
      start.t =
        ((history.find(({ op, job }) => op === 'run' && job === 's0') as Row).t as number) + 0.5;
    },
    /order: k: 1 began 0.5 ms before 0 had ended/,
  ],
  [
    'a bystander became a dead letter',
    (story) => Object.assign(jobOf(story, 'c0'), { status: 'dead_letter' }),
    /bystanders: job c0 \(child\) became a dead letter/,
  ],
  [
    'a bystander paid for a crash',
    (story) =>
      Object.assign(jobOf(story, 'c0'), { history: [{ outcome: 'vanished', spent: true }] }),
    /bystanders: job c0 \(child\) paid 1 attempts/,
  ],
  [
    'a job is stuck',
    (story) => {
      story.run.left = [{ id: 'z', type: 'pay', queue: 'inbox', status: 'processing' }];
    },
    /bystanders: job z \(pay, inbox, processing.* is stuck/,
  ],
  [
    'a claim of the dead was left behind',
    ({ state }) => state.claims?.push({ worker: OTHER, jobs: 3 }),
    /bystanders: a claim of 3 jobs of vm-202-bb, which is gone/,
  ],
  [
    'an idempotency key points nowhere',
    ({ state }) => state.idempotency?.push({ key: 'o7#0', job: 'nowhere' }),
    /bystanders: the idempotency key o7#0 points to job nowhere/,
  ],
  [
    'the fleet stands still after healing',
    (story) => {
      story.run.healedAt = 10 * MINUTE;
    },
    /liveness: after healing 0 jobs\/s within 10 s/,
  ],
  [
    'the backlog drains slowly',
    (story) => {
      story.run.drainAfter = 50;
    },
    /liveness: the backlog drained at 50 jobs\/s; undisturbed were 100/,
  ],
  [
    'the fleet stood still under faults',
    (story) => {
      story.run.faults = { from: MINUTE, to: 2 * MINUTE };
    },
    /liveness: the fleet stood still for 60.0 s/,
  ],
  [
    'a killed worker held its job for long, while others went on',
    ({ state }) => {
      for (let at = 0; at < 90_000; at += 500) state.jobs?.push(row(`x${at}`, 'child', { at }));
      state.witness?.push(
        change('enqueued', 'r', { generation: 0 }),
        change('claimed', 'r', { owner: OWNER }),
        change('claimed', 'r', { owner: OTHER, generation: 2, at: 90_000, was_expired: true }),
      );
    },
    /liveness: job r of a killed worker was claimed again only after 90.0 s/,
  ],
  [
    'a process ended by itself',
    ({ history }) =>
      history.push(line({ op: 'process', phase: 'note', child: 7, name: 'worker-2.1', code: 1 })),
    /liveness: worker-2.1 \(process 7\) ended with 1 by itself/,
  ],
  [
    'a rejection was not handled',
    ({ history }) => history.push(line({ op: 'unhandled', phase: 'note', error: 'oh' })),
    /liveness: worker-1.1: unhandled: oh/,
  ],
  [
    'memory grew',
    (story) => {
      story.run.maxRssMb = 900;
    },
    /liveness: a process grew to 900 MB/,
  ],
  [
    'connections leaked',
    (story) => {
      story.run.connectionsAfter = 190;
    },
    /liveness: 190 connections after healing/,
  ],
];

test.each(BAD)('it is found that %s', (_what, spoil, found) => {
  const story = good();
  spoil(story);
  expect(violationsOf(story).join('\n')).toMatch(found);
});

test('what an asynchronous failover lost is counted and explained, not hidden', () => {
  const story = good();
  const lost = line({ op: 'enqueue', phase: 'ok', of: 'o3', ids: ['x'] });
  story.history.push(
    line({ op: 'enqueue', phase: 'invoke', of: 'o3', jobs: 1, inTransaction: false }),
    lost,
    line({ op: 'failover', phase: 'note', lossy: true }),
  );
  expect(checkAll(story)).toMatchObject({ violations: [], counts: { lost: 1, lostExplained: 1 } });
  lost.t = (story.history.at(-1)?.t as number) + 5_000;
  expect(violationsOf(story).join('\n')).toMatch(/o3: job x was acknowledged and is lost/);
});
