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

const wrote = (token: number, by: string, accepted = true) =>
  line({ op: 'register', phase: 'note', job: 'l', token, by, accepted });

let seq = 0;
const change = (kind: string, job: string, facts: Row = {}): Row => {
  seq++;
  const of = { queue: 'inbox', key: job, position: 1, generation: 1, tx: String(seq) };
  const was = { was_status: 'processing', was_owner: OWNER, was_expired: false };
  const before = kind === 'enqueued' || kind === 'claimed' ? { was_status: 'pending' } : was;
  const by = { crashed: false, outcome: null, made_by: 'torture-101' };
  return { seq, at: seq, kind, job, ...by, ...of, ...before, ...facts };
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
      line({ op: 'fault', phase: 'invoke', name: 'kill' }),
      line({ op: 'fault', phase: 'ok', name: 'kill', hit: true }),
      line({ op: 'fault', phase: 'ok', name: 'cut', hit: 0 }),
      ...run('a'),
      completed('a'),
      ...run('b'),
      completed('b'),
      line({ op: 'run', phase: 'invoke', job: 'm', gen: 1 }),
      line({ op: 'once', phase: 'invoke', job: 'm', gen: 1 }),
      line({ op: 'effect', phase: 'invoke', job: 'm', gen: 1 }),
      line({ op: 'effect', phase: 'ok', job: 'm', gen: 1 }),
      line({ op: 'once', phase: 'ok', job: 'm', gen: 1 }),
      line({ op: 'run', phase: 'ok', job: 'm', gen: 1 }),
      completed('m'),
      ...run('p'),
      ...run('c0'),
      ...run('c1'),
      ...run('s0'),
      line({ op: 'run', phase: 'invoke', job: 's1', gen: 1 }),
      line({ op: 'body', phase: 'ok', job: 's1', gen: 1 }),
      line({ op: 'run', phase: 'ok', job: 's1', gen: 1 }),
      // Frozen between its writes, and taken over meanwhile.
      line({ op: 'run', phase: 'invoke', job: 'l', gen: 1 }),
      wrote(1, 'worker-1.1/101'),
      ...run('l', 2, { pid: 202 }),
      wrote(2, 'worker-2.1/202'),
      wrote(1, 'worker-1.1/101', false),
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
        row('s1', 'guarded', { queue: 'lines', key: 'k', payload: { n: 1 } }),
        row('l', 'long', { generation: 2, owner: OTHER }),
      ],
      idempotency: [{ key: 'o1#0', job: 'a' }],
      markers: [{ job: 'm', name: 'mail', generation: 1 }],
      claims: [],
      workers: [{ id: OWNER, status: 'alive' }],
      orders: [{ op: 'o1', jobs: 2 }],
      effects: [
        { job: 'a', generation: 1 },
        { job: 'b', generation: 1 },
        { job: 's1', generation: 1 },
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
        change('enqueued', 'l', { generation: 0 }),
        change('claimed', 'l', { owner: OWNER }),
        change('pending', 'l', { was_expired: true, crashed: true, outcome: 'vanished' }),
        change('claimed', 'l', { owner: OTHER, generation: 2, made_by: 'torture-202' }),
        change('gone', 'l', { was_owner: OTHER, generation: 2, made_by: 'torture-202' }),
      ],
    },
    run: {
      left: [],
      baseline: { from: MINUTE - 2000, to: MINUTE + 2000 },
      faults: { from: MINUTE, to: MINUTE + 10 },
      healedAt: MINUTE - 500,
      loadUntil: MINUTE + 2_500,
      ...{ drainBefore: 100, drainAfter: 90, drainShare: 0.7, wallOffset: 0, maxRssMb: 100 },
      ...{ connectionsBefore: 50, connectionsAfter: 40, maxConnections: 60, deadlocks: 0 },
    },
  };
}

/** What the nemesis found missing after a failover. */
const losses = (facts: Row) =>
  line({
    op: 'lost',
    phase: 'note',
    ...{ enqueued: [], claimed: [], settled: [], marked: [], ...facts },
  });

const violationsOf = (story: Story) => checkAll(story).violations;
/** A worker asks the database twice a second and gets every answer; its job is taken away from it in between. */
function recoveredFromTheLiving({ history, state }: Story): void {
  history.push(line({ op: 'worker', phase: 'ok', pid: 202, id: OTHER, t: 8_000 }));
  for (let t = 8_000; t <= 16_000; t += 500)
    history.push(line({ op: 'probe', phase: 'ok', pid: 202, t }));
  state.witness?.push(
    change('enqueued', 'r', { generation: 0 }),
    change('claimed', 'r', { owner: OTHER, made_by: 'torture-202' }),
    change('pending', 'r', { crashed: true, was_owner: OTHER, at: 15_200 }),
  );
}
const RECOVERED = /ownership: job r, generation 1: recovered from vm-202-bb, which is alive/;

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
    ...{ transactionalEffects: 3, onceEffects: 1, children: 2, keys: 1 },
    ...{ faults: { kill: 1 }, faultsInVain: 1 },
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
    /acceptance: job a \(pay\) is pending after the drain/,
  ],
  [
    'a child still waits, of which no producer knows',
    (story) => Object.assign(jobOf(story, 'c0'), { status: 'pending' }),
    /acceptance: job c0 \(child\) is pending after the drain/,
  ],
  [
    'a job was cancelled by nobody',
    (story) => Object.assign(jobOf(story, 'c0'), { status: 'cancelled' }),
    /acceptance: job c0 \(child\) is cancelled after the drain/,
  ],
  [
    'two jobs were acknowledged in the place of each other',
    ({ history }) => {
      const ok = history.find(({ op, phase }) => op === 'enqueue' && phase === 'ok') as Row;
      ok.ids = ['b', 'a'];
    },
    /acceptance: o1: its job 0 was acknowledged as b, which is o1#1/,
  ],
  [
    'a producer that lives never got its answer',
    ({ history, state }) => {
      history.push(
        line({ op: 'enqueue', phase: 'invoke', of: 'o3', jobs: 1, inTransaction: false, pid: 7 }),
        line({ op: 'healed', phase: 'note' }),
        line({ op: 'signal', child: 7, signal: 'SIGTERM' }),
      );
      state.jobs?.push(row('z', 'flaky', { idem: 'o3#0' }));
    },
    /acceptance: o3 never got an answer, and its producer lives/,
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
    'a job ran in a process that never claimed it',
    ({ history }) => {
      for (const one of history) if (one.op === 'run' && one.job === 'a') one.pid = 202;
    },
    /ownership: process 202 ran generation 1 of job a, which it has never claimed/,
  ],
  [
    'a job was completed without having run',
    ({ history }) => drop(history, ({ op, job }) => op === 'run' && job === 'c0'),
    /ownership: job c0 \(child\) is completed, and its handler never ran/,
  ],
  [
    'a job was completed before its handler had ended',
    ({ history }) =>
      drop(history, ({ op, phase, job }) => op === 'run' && phase === 'ok' && job === 'c0'),
    /ownership: job c0 \(child\) is completed, and its handler did not end/,
  ],
  [
    'a stale worker completed what another held',
    (story) => Object.assign(changesOf(story, 'a')[2] as Row, { made_by: 'torture-202' }),
    /ownership: job a, generation 1: gone, of vm-101-aa, by a session of somebody else/,
  ],
  [
    'nobody knows who completed it',
    (story) => Object.assign(changesOf(story, 'a')[2] as Row, { made_by: '' }),
    /ownership: job a, generation 1: gone, of vm-101-aa, by a session of somebody else/,
  ],
  [
    'a stale worker renewed the lease of another',
    ({ state }) => state.witness?.push(change('renewed', 'r', { made_by: 'torture-202' })),
    /ownership: job r, generation 1: renewed, of vm-101-aa, by a session of somebody else/,
  ],
  [
    'a lease was revived',
    ({ state }) => state.witness?.push(change('renewed', 'r', { was_expired: true })),
    /ownership: job r, generation 1: renewed by vm-101-aa after its lease was over/,
  ],
  [
    'a failure after the lease was over',
    ({ state }) =>
      state.witness?.push(change('pending', 'r', { was_expired: true, outcome: 'failed' })),
    /ownership: job r, generation 1: failed by vm-101-aa after its lease was over/,
  ],
  [
    'a dead letter was claimed',
    (story) => Object.assign(changesOf(story, 'a')[1] as Row, { was_status: 'dead_letter' }),
    /ownership: job a, generation 1: claimed by vm-101-aa while dead_letter/,
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
  ['recovered from a live worker', recoveredFromTheLiving, RECOVERED],
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
    ({ history }) => history.push(wrote(1, 'worker-1.1/101')),
    /ownership: the register took token 1 of job l after 2/,
  ],
  [
    'two processes had one token',
    ({ history }) => history.push(wrote(2, 'worker-1.1/101')),
    /ownership: token 2 of job l was used by worker-1.1\/101, to whom it was never given/,
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
    ({ history, state }) => {
      history.push(line({ op: 'effect', phase: 'invoke', job: 'm', gen: 2 }));
      state.witness?.push(change('claimed', 'm', { owner: OWNER, generation: 2 }));
    },
    /effects: the effect of job m ran in generation 2, marked in 1/,
  ],
  [
    'a marked effect ran again in an older attempt',
    ({ history, state }) => {
      Object.assign(state.markers?.[0] as Row, { generation: 2 });
      history.push(
        line({ op: 'once', phase: 'invoke', job: 'm', gen: 1, pid: 202 }),
        line({ op: 'effect', phase: 'invoke', job: 'm', gen: 1, pid: 202 }),
      );
    },
    /effects: the effect of job m ran in generation 1, asked for after it was marked/,
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
    /order: k: 1 \(generation 1\) began 0.5 ms before 0 had ended/,
  ],
  [
    'a job began while the transaction of the one before it was open',
    (story) => {
      const keyed = { queue: 'lines', key: 'k' };
      story.state.jobs?.push(row('s2', 'step', { ...keyed, payload: { n: 2 } }));
      story.state.witness?.push(...life('s2', { ...keyed, position: 12 }));
      const body = story.history.find(({ op, job }) => op === 'body' && job === 's1') as Row;
      const [begun, ended] = run('s2') as [Row, Row];
      begun.t = (body.t as number) - 0.5;
      story.history.push(begun, ended);
    },
    /order: k: 2 \(generation 1\) began 0.5 ms before 1 had ended/,
  ],
  [
    'an attempt that failed began too early',
    (story) => {
      const keyed = { queue: 'lines', key: 'k', position: 11 };
      Object.assign(jobOf(story, 's1'), { generation: 2 });
      story.state.witness?.push(change('pending', 's1', { ...keyed, outcome: 'failed' }));
      const { history } = story;
      const start = history.find(({ op, job }) => op === 'run' && job === 's1') as Row;
      const end = history.find(
        ({ op, phase, job }) => op === 'run' && phase === 'ok' && job === 's0',
      );
      start.t = ((end as Row).t as number) - 0.5;
    },
    /order: k: 1 \(generation 1\) began 0.5 ms before 0 had ended/,
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
    'a bystander paid, and the books do not say so',
    (story) => Object.assign(jobOf(story, 'c0'), { attempts: 2 }),
    /bystanders: job c0 \(child\) paid 1 attempts/,
  ],
  [
    'a job is leased after the drain',
    (story) => Object.assign(jobOf(story, 'c0'), { status: 'processing' }),
    /bystanders: job c0 is still leased to vm-101-aa/,
  ],
  [
    'a marker is of no job',
    ({ state }) => state.markers?.push({ job: 'nowhere', name: 'mail', generation: 1 }),
    /bystanders: the marker mail is of job nowhere/,
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
    'the fleet came back and fell back',
    (story) => {
      story.run.loadUntil = MINUTE + 3_000;
      for (const one of story.state.jobs ?? []) one.at = MINUTE - 400;
    },
    /liveness: at the end of the load 0 jobs\/s/,
  ],
  [
    'the fleet came back too late',
    (story) => {
      story.run.healedAt = MINUTE - 10_100;
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
    'the fleet stood still, and its workers came and went',
    ({ history, run }) => {
      run.faults = { from: MINUTE + 1, to: 2 * MINUTE };
      for (let at = MINUTE + 10_000; at < 2 * MINUTE; at += 10_000)
        history.push(
          { t: at, op: 'process', phase: 'note', child: 303, name: 'producer-1.1', code: 0 },
          { t: at + 1_000, op: 'worker', phase: 'ok', pid: 303 },
        );
    },
    /liveness: the fleet stood still for 55.0 s/,
  ],
  [
    'two statements waited for each other',
    ({ history }) =>
      history.push(line({ op: 'enqueue', phase: 'unknown', of: 'o1', code: '40P01' })),
    /liveness: worker-1.1: enqueue ended in a deadlock/,
  ],
  [
    'the server met a deadlock of which nobody heard',
    (story) => {
      story.run.deadlocks = 1;
    },
    /liveness: the server counted 1 deadlocks/,
  ],
  [
    'nobody counted the connections',
    (story) => {
      story.run.connectionsAfter = null;
    },
    /liveness: nobody counted the connections/,
  ],
  [
    'nothing was enqueued, and nothing ran',
    (story) => {
      story.history = story.history.filter(({ op }) => op === 'worker' || op === 'fault');
      for (const name of Object.keys(story.state)) story.state[name] = [];
    },
    /evidence: there was no acknowledged enqueue[\s\S]*evidence: there was no job that ran/,
  ],
  [
    'nothing was done before the faults',
    (story) => {
      story.run.baseline = { from: 0, to: 1 };
    },
    /evidence: there was no job completed while nothing was disturbed/,
  ],
  [
    'no fault had an effect',
    ({ history }) => drop(history, ({ op, name }) => op === 'fault' && name === 'kill'),
    /evidence: no fault had an effect/,
  ],
  [
    'a fault that aims at nothing',
    ({ history }) => {
      for (let n = 0; n < 4; n++)
        history.push(line({ op: 'fault', phase: 'fail', name: 'cut', error: 'oh' }));
    },
    /evidence: the fault cut was struck 5 times and never had an effect/,
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

test('only what a worker held when it was killed is a recovery', () => {
  const story = good();
  const killedAt = story.history.find(({ op }) => op === 'signal')?.t as number;
  const back = change('pending', 'r', { at: killedAt - 1 });
  const again = { owner: OTHER, generation: 2, made_by: 'torture-202' };
  const later = killedAt + 5_000;
  story.state.witness?.push(
    change('enqueued', 'r', { generation: 0, at: 0 }),
    change('claimed', 'r', { owner: OWNER, at: 0 }),
    back,
    change('claimed', 'r', { ...again, at: later }),
  );
  expect(checkAll(story).counts).toMatchObject({ recoveries: 0, recoveryMs: { max: null } });
  Object.assign(back, { at: killedAt + 1, crashed: true });
  expect(checkAll(story).counts).toMatchObject({ recoveries: 1, recoveryMs: { max: 5_000 } });
});

test('a job that crashed often pays for a crash in which it ran alone, and only then', () => {
  const story = good();
  const owners = [1, 2, 3, 4, 5].map((n) => `vm-40${n}-x`);
  const job = jobOf(story, 'c0');
  job.history = owners.map((worker, n) => ({ worker, outcome: 'vanished', spent: n === 4 }));
  job.attempts = 2;
  const crashes = owners.map((was_owner) =>
    change('pending', 'c0', { was_owner, crashed: true, outcome: 'vanished', at: MINUTE }),
  );
  story.state.witness?.push(...crashes);
  story.history.push(line({ op: 'run', phase: 'invoke', job: 'c0', gen: 6, pid: 405 }));
  const { violations, counts } = checkAll(story);
  expect(violations.filter((text) => text.startsWith('bystanders'))).toEqual([]);
  expect(counts).toMatchObject({ charged: 0, chargedAlone: 1 });

  const beside = line({ op: 'run', phase: 'invoke', job: 'b', gen: 7, pid: 405 });
  story.history.push(beside);
  expect(violationsOf(story).join('\n')).toMatch(/bystanders: job c0 \(child\) paid 1 attempts/);
  drop(story.history, (one) => one === beside);
  drop(story.state.witness, (one) => one === crashes[0]);
  expect(violationsOf(story).join('\n')).toMatch(/bystanders: job c0 \(child\) paid 1 attempts/);
});

test('a suspect waits for those that crashed before it, and is not passed by the others', () => {
  const story = good();
  for (let at = 0; at < 90_000; at += 500) story.state.jobs?.push(row(`x${at}`, 'child', { at }));
  const crashed = { crashed: true, outcome: 'vanished' };
  const suspect = (job: string, owner: string, crashedAt: number, claimedAt: number) => [
    change('pending', job, { ...crashed, at: 0 }),
    change('claimed', job, { owner, at: 0 }),
    change('pending', job, { ...crashed, at: crashedAt }),
    change('claimed', job, { owner: OTHER, at: claimedAt }),
  ];
  const changes = [
    ...suspect('r', OWNER, 2_000, 60_000),
    ...[15, 30, 45].flatMap((s) => suspect(`q${s}`, 'vm-9-z', 1_000 + s, s * 1_000)),
  ].sort((a, b) => (a.at as number) - (b.at as number));
  story.state.witness?.push(...changes);
  const late = /job r of a killed worker was claimed again only after 60/;
  expect(violationsOf(story).join('\n')).not.toMatch(late);
  for (const one of changes) if (one.crashed && one.job !== 'r') one.at = 2_100;
  expect(violationsOf(story).join('\n')).toMatch(late);
});

test('what an asynchronous failover lost is counted and explained, not hidden', () => {
  const story = good();
  const lost = losses({ enqueued: ['x'] });
  story.history.push(
    line({ op: 'enqueue', phase: 'invoke', of: 'o3', jobs: 1, inTransaction: false }),
    line({ op: 'enqueue', phase: 'ok', of: 'o3', ids: ['x'] }),
    lost,
  );
  expect(checkAll(story)).toMatchObject({ violations: [], counts: { lost: 1, lostExplained: 1 } });
  // The dead primary never had it: it was the new one that acknowledged it.
  Object.assign(lost, { enqueued: ['y'] });
  expect(violationsOf(story).join('\n')).toMatch(/o3: job x was acknowledged and is lost/);
});

test.each<[why: string, spoil: (history: Row[]) => unknown]>([
  ['it was frozen', (history) => removeProbes(history, 13_000, 15_000)],
  [
    'it was cut off',
    (history) => history.push(line({ op: 'probe', phase: 'fail', pid: 202, t: 14_100 })),
  ],
  [
    'its keeper got no answer',
    (history) =>
      history.push(line({ op: 'error', phase: 'note', pid: 202, what: 'renewing', t: 14_100 })),
  ],
  [
    'it had come back under another id',
    (history) =>
      history.push(line({ op: 'worker', phase: 'ok', pid: 202, id: 'vm-202-cc', t: 11_000 })),
  ],
  [
    'it was told to stop',
    (history) => history.push(line({ op: 'signal', child: 202, signal: 'SIGTERM', t: 15_000 })),
  ],
  [
    'it had ended',
    (history) => history.push(line({ op: 'process', phase: 'note', child: 202, t: 15_000 })),
  ],
])('a worker whose job is recovered was not alive: %s', (_why, spoil) => {
  const story = good();
  recoveredFromTheLiving(story);
  spoil(story.history);
  story.history.sort((a, b) => (a.t as number) - (b.t as number));
  expect(violationsOf(story).join('\n')).not.toMatch(RECOVERED);
});

function removeProbes(history: Row[], from: number, to: number): void {
  const kept = history.filter(
    ({ op, t }) => op !== 'probe' || (t as number) < from || (t as number) > to,
  );
  history.splice(0, history.length, ...kept);
}

/** So many jobs of a type, all claimed before the first of them ends. */
function claimedAtOnce({ history, state }: Story, type: string, count: number): void {
  const ids = Array.from({ length: count }, (_, n) => `${type}-${n}`);
  for (const id of ids) {
    history.push(...run(id));
    state.jobs?.push(row(id, type));
    state.witness?.push(change('enqueued', id, { generation: 0 }));
  }
  for (const id of ids) state.witness?.push(change('claimed', id, { owner: OWNER }));
  for (const id of ids) state.witness?.push(change('gone', id));
}

test('as many jobs of a limited type run at once as its limit allows, and not one more', () => {
  const story = good();
  claimedAtOnce(story, 'capped', 4);
  expect(violationsOf(story)).toEqual([]);
  const more = good();
  claimedAtOnce(more, 'capped', 5);
  expect(violationsOf(more)).toEqual(['limits: 5 jobs of the type capped ran at once, of 4']);
});

test('what a process holds that has ended, or is silent, counts for no limit, and only then', () => {
  const held = (...lines: Row[]) => {
    const story = good();
    claimedAtOnce(story, 'capped', 5);
    story.history.push(...lines);
    return violationsOf(story).filter((text) => text.startsWith('limits'));
  };
  const at = seq - 10;
  expect(held(line({ op: 'process', phase: 'note', child: 101, signal: 'SIGKILL', t: 0 }))).toEqual(
    [],
  );
  expect(held(line({ op: 'probe', phase: 'fail', t: at }))).toEqual([]);
  expect(held(line({ op: 'probe', phase: 'ok', t: at - 2_000 }))).toEqual([]);
  expect(held(line({ op: 'probe', phase: 'ok', t: at - 1_000 }))).toHaveLength(1);
});

test('more starts of a type than its rate allows are found', () => {
  const story = good();
  claimedAtOnce(story, 'paced', 160);
  expect(violationsOf(story)).toEqual([]);
  const more = good();
  claimedAtOnce(more, 'paced', 170);
  expect(violationsOf(more).join('\n')).toMatch(/limits: 170 jobs of the type paced started/);
});

test('a completion that a failover lost is explained, and no other', () => {
  const story = good();
  const lost = losses({ settled: ['l/1'] });
  story.history.push(line({ op: 'settle', phase: 'ok', how: 'completed', job: 'l', gen: 1 }), lost);
  expect(violationsOf(story)).toEqual([]);
  Object.assign(lost, { settled: [] });
  expect(violationsOf(story).join('\n')).toMatch(/completed generation 1 of job l/);
});

test('a generation that a failover issued twice does not let its first owner settle', () => {
  const story = good();
  story.history.push(
    // The claim of 202 was lost; 101 was given the same generation.
    ...run('a', 1, { pid: 202 }),
    losses({ claimed: ['a/1/202'] }),
  );
  expect(violationsOf(story)).toEqual([]);
  // And a later one, whose effect came before that of the generation that counts.
  story.history.unshift(line({ op: 'effect', phase: 'invoke', job: 'm', gen: 2, pid: 202, t: 0 }));
  expect(violationsOf(story)).toEqual([]);
  Object.assign(changesOf(story, 'a')[2] as Row, { made_by: 'torture-202' });
  expect(violationsOf(story).join('\n')).toMatch(
    /job a, generation 1: gone, of vm-101-aa, by a session of somebody else/,
  );
});
