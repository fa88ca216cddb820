/** The seven journeys of the lab, played through its engine: the outcomes that its page promises. */
import { PGlite } from '@electric-sql/pglite';
import { beforeAll, expect, test, vi } from 'vitest';
import { COURSES } from '../../packages/lab/src/courses.js';
import type { CheckoutState } from '../../packages/lab/src/engine/checkout.js';
import type { CrashState } from '../../packages/lab/src/engine/crash.js';
import type { FleetState } from '../../packages/lab/src/engine/fleet.js';
import type { Frame, Settings } from '../../packages/lab/src/engine/frame.js';
import {
  HeartbeatRun,
  type HeartbeatState,
  type Shot,
  timelineOf,
} from '../../packages/lab/src/engine/heartbeat.js';
import { type JourneyName, Lab } from '../../packages/lab/src/engine/lab.js';
import type { ReceiptState } from '../../packages/lab/src/engine/receipt.js';
import type { RingState } from '../../packages/lab/src/engine/ring.js';
import { Stage } from '../../packages/lab/src/engine/stage.js';
import type { TimingState } from '../../packages/lab/src/engine/timing.js';
import { computed, timesOf } from '../../packages/lab/src/engine/timing-worst.js';
import { type Create, openServer } from '../../packages/lab/src/simulation/database.js';
import type { Server } from '../../packages/lab/src/simulation/server.js';
import { builtFiles, openBuiltServer } from '../support/lab-server.js';
import { long, longTest } from '../support/long.js';
import { loaded } from '../support/simulated-threads.js';

vi.mock('pg', () => import('../../packages/lab/src/simulation/pg.js'));
vi.mock('node:worker_threads', () => import('../support/simulated-threads.js'));
vi.mock('node:timers/promises', () => import('../../packages/lab/src/simulation/timers.js'));
vi.mock('node:os', async (original) => ({
  ...(await original<object>()),
  hostname: (await import('../../packages/lab/src/simulation/modules.js')).hostname,
}));
vi.mock('node:crypto', async (original) => ({
  ...(await original<object>()),
  randomBytes: (await import('../../packages/lab/src/simulation/modules.js')).randomBytes,
}));

let server: Server;
let lab: Lab;
beforeAll(async () => {
  await loaded;
  server = await openBuiltServer();
  lab = new Lab(server);
}, 120_000);

/** All frames of a course, as Play makes them. */
async function play<State>(
  name: JourneyName,
  id: string,
  settings: Settings = {},
): Promise<Frame<State>[]> {
  const course = COURSES[name]?.find((one) => one.id === id);
  if (!course) throw new Error(`there is no course ${id} of ${name}`);
  const frames = await lab.open(name, 1, { ...course.settings, ...settings });
  for (const act of course.acts) {
    const moves = act.do === 'wait' && name === 'fleet';
    frames.push(...(await (moves ? lab.advance(Number(act.ms)) : lab.act(act))));
  }
  return frames as Frame<State>[];
}

const last = <State>(frames: readonly Frame<State>[]) => frames.at(-1) as Frame<State>;
/** How many rows the last statement of that name moved, when the frame was made that says so. */
const counts = (frames: readonly Frame[], name: string) =>
  frames.flatMap(({ sql }) => sql.filter((one) => one.name === name).map(({ count }) => count));

test('1: a receipt is claimed and completed, and stands in the archive', async () => {
  const frames = await play<ReceiptState>('receipt', 'success');
  expect(frames.map(({ state }) => state.row?.status ?? null)).toEqual([
    ...[null, 'pending', 'processing', 'processing', 'completed'],
  ]);
  expect(frames[2]?.state.leaseMs).toBe(90_000);
  expect(frames[3]?.state.leaseMs).toBe(89_000);
  expect(last(frames).state.table).toBe('inbox_archive');
  expect(counts(frames, 'insert_usual')).toEqual([1]);
});

longTest('1: it is retried in 2, 4, 8 and 16 s, and then is a dead letter', async () => {
  const frames = await play<ReceiptState>('receipt', 'dead-letter');
  expect(last(frames).state.retriesMs).toEqual([2_000, 4_000, 8_000, 16_000]);
  expect(last(frames).state.row).toMatchObject({ status: 'dead_letter', attempts: '5' });
  const jittered = last(await play<ReceiptState>('receipt', 'dead-letter', { jitter: true }));
  expect(jittered.state.retriesMs).toHaveLength(4);
  expect(jittered.state.retriesMs).not.toEqual([2_000, 4_000, 8_000, 16_000]);
});

test('1: a second claimer and a stale completion get 0 rows', async () => {
  const second = await play<ReceiptState>('receipt', 'second');
  expect(counts(second, 'claim')).toEqual([1, 0]);
  const stale = await play<ReceiptState>('receipt', 'stale');
  expect(counts(stale, 'complete')).toEqual([0, 1]);
  expect(stale.at(-2)?.tone).toBe('refused');
  expect(last(stale).state.row).toMatchObject({ status: 'completed', lease_generation: '2' });
});

test('2: one key makes one row, and a crash after the mail makes two mails, or one with the guard', async () => {
  const bare = await play<CrashState>('crash', 'after');
  expect(bare[2]?.state).toMatchObject({ enqueues: 2, rows: 1 });
  expect(last(bare).state).toMatchObject({ rows: 1, row: { status: 'completed' } });
  expect(last(bare).state.mails.map(({ by }) => by)).toEqual(['worker-a', 'worker-b']);
  const guarded = last(await play<CrashState>('crash', 'guard')).state;
  expect(guarded.mails.map(({ by }) => by)).toEqual(['worker-a']);
  expect(guarded.markers).toHaveLength(1);
  expect(last(await play<CrashState>('crash', 'before')).state.mails).toHaveLength(1);
  // What `once` cannot do, and says so.
  expect(last(await play<CrashState>('crash', 'between')).state.mails).toHaveLength(2);
});

test('2: the stale worker is refused, and what kills everybody ends as a dead letter', async () => {
  const frames = await play<CrashState>('crash', 'guard');
  expect(counts(frames, 'complete')).toEqual([1, 0]);
  expect(last(frames).tone).toBe('refused');
  const poison = last(await play<CrashState>('crash', 'poison')).state;
  expect(poison.row).toMatchObject({ status: 'dead_letter', attempts: '1' });
});

test('3: about 1/N of the keys move when a worker joins or leaves; with hash % N most do', async () => {
  const frames = await play<RingState>('ring', 'tour');
  const [start, key, four, five, gone, one, unbounded, many] = frames.map(({ state }) => state);
  expect(start?.workers).toHaveLength(3);
  expect(start?.workers.reduce((sum, { buckets }) => sum + buckets, 0)).toBe(1_024);
  expect(key?.key).toMatchObject({ key: 'order:9182' });
  expect(frames[1]?.sql[0]?.rows[0]?.[0]).toBe(String(key?.key?.bucket));
  for (const [state, least] of [
    [four, 1 / 4],
    [five, 1 / 5],
    [gone, 1 / 5],
  ] as const) {
    expect(state?.moved?.ring).toBeGreaterThan(0.7 * least);
    expect(state?.moved?.ring).toBeLessThan(1.5 * least);
    expect(state?.moved?.modulo).toBeGreaterThan(0.6);
  }
  const spread = (state: RingState | undefined) =>
    Math.max(...(state?.workers.map(({ buckets }) => buckets) ?? [])) / 256;
  expect(spread(one)).toBeLessThanOrEqual(1.21);
  expect(spread(unbounded)).toBeGreaterThan(1.3);
  expect(spread(many)).toBeLessThan(spread(unbounded));
});

test('4: a killed worker is dead after a TTL in the article, and after 1 to 2 s here', async () => {
  const frames = (await lab.open('heartbeat', 1, {
    fault: 'kill',
    at: 8,
  })) as Frame<HeartbeatState>[];
  const { article, holdfast, faultAt } = last(frames).state;
  expect(holdfast.deadAt! - faultAt).toBeLessThan(2_500);
  expect(article!.deadAt! - faultAt).toBeGreaterThan(18_000);
  expect(article!.deadAt! - faultAt).toBeLessThan(35_000);
  for (const fleet of [article!, holdfast]) {
    expect(fleet.orphans).toBeGreaterThan(0);
    expect(fleet.taken).toBe(fleet.orphans);
  }
});

longTest(
  '4: a frozen worker comes back as a zombie: under a new id, and its completions are refused',
  async () => {
    // Of the two courses that the page lays side by side only Holdfast's own.
    const [stage, line] = [new Stage(server, 2), timelineOf({ fault: 'freeze', at: 8 })];
    const run = new HeartbeatRun(stage, line, true);
    const shots = await stage.within(() => run.run(() => undefined));
    const { picture } = shots.at(-1) as Shot;
    expect(picture.deadAt! - line.faultAt).toBeGreaterThan(18_000);
    expect(picture.backAt).toBeGreaterThan(picture.deadAt!);
    expect(picture.refused).toBeGreaterThan(0);
    expect(picture.workers.find(({ name }) => name === 'worker-2')?.registry).toEqual([
      'alive',
      'dead',
    ]);
  },
);

const SAFE = { death: false, lost: false, double: false, over: true };
const DOUBLE = { death: true, lost: true, double: true, over: true };
test.each<[string, Settings, typeof SAFE]>([
  ['the defaults', {}, SAFE],
  ['a stall that the TTL absorbs', { fate: 'stall', stall: 15 }, SAFE],
  ['a stall longer than the TTL', { fate: 'stall', stall: 45 }, DOUBLE],
  ['a TTL below the heartbeat', { heartbeat: 40, ttl: 20 }, DOUBLE],
  // Whoever runs it loses its lease, again and again.
  ['no renewal', { renew: 0 }, { death: false, lost: true, double: true, over: false }],
  ['a renewal at the end of the lease', { lease: 30 }, { ...DOUBLE, death: false, over: false }],
])('5: what is computed for %s is what is played', async (_, settings, { over, ...expected }) => {
  const frames = (await lab.open('timing', 1, settings)) as Frame<TimingState>[];
  const { played, computed: verdict } = last(frames).state;
  const { falseDeath: death, lostLease: lost, doubleRun: double } = verdict;
  expect({ death, lost, double }).toEqual(expected);
  expect({
    death: played.deadAt !== null,
    lost: played.lostAt !== null,
    double: played.runs.length > 1,
    over: played.over,
  }).toEqual({ ...expected, over });
});

longTest(
  '5: recovery after a kill takes no longer than computed, by silence and by the lease',
  async () => {
    for (const settings of [{ fate: 'kill' }, { fate: 'kill', lease: 20, renew: 10, ttl: 60 }]) {
      const frames = (await lab.open('timing', 1, settings)) as Frame<TimingState>[];
      const { played, computed: verdict } = last(frames).state;
      expect(played.recoveredAt).toBeGreaterThan(0);
      expect(played.recoveredAt).toBeLessThanOrEqual(verdict.recoveryMs);
      expect(played.killedAt).toBeGreaterThan(0);
    }
    // Another one had it before the kill: there was nothing to recover.
    const early = { fate: 'kill', lease: 5, renew: 0 };
    const frames = (await lab.open('timing', 1, early)) as Frame<TimingState>[];
    expect(last(frames).state.played.recoveredAt).toBeNull();
    expect(computed(timesOf({ renew: 60 })).refusal).toMatch(/at most half of lease/);
  },
);

test('6: a burst, a kill, a freeze and a drain: nothing is lost, and about 1/N of the buckets moves', async () => {
  const frames = await play<FleetState>('fleet', 'tour');
  frames.push(...((await lab.advance(10_000)) as Frame<FleetState>[]));
  const { counts: sum, workers } = last(frames).state;
  expect(sum).toMatchObject({ accepted: 80, done: 80, lost: 0, waiting: 0, completedTwice: 0 });
  expect(workers.map(({ name }) => name).sort()).toEqual(['worker-1', 'worker-2', 'worker-4']);
  expect(Math.max(...frames.map(({ state }) => state.counts.lost))).toBe(0);
  // The ring counts those that have buckets: not one that was killed, and the first of the list as well.
  const rings = frames.map(({ state }) => state);
  expect(rings[0]).toMatchObject({ owning: 3, workers: { length: 3 } });
  expect(rings.some(({ owning, workers }) => owning < workers.length)).toBe(true);
  for (const { owning, owners } of rings)
    expect(owning).toBe(new Set(owners.filter((owner) => owner !== -1)).size);
  const moved = frames.map(({ state }) => state.moved).filter((one) => one !== null);
  expect(moved.length).toBeGreaterThan(0);
  for (const { share, least } of moved) expect(share).toBeLessThan(1.6 * least);
});

longTest('6: a key mostly stays with the worker that owns it', async () => {
  const frames = await lab.open('fleet', 4);
  for (let n = 0; n < 4; n++) {
    for (const key of ['order:1', 'order:2', 'order:3']) await lab.act({ do: 'enqueue', key });
    frames.push(...(await lab.advance(1_500)));
  }
  const { keys, counts: sum } = last(frames as Frame<FleetState>[]).state;
  expect(sum).toMatchObject({ accepted: 12, done: 12 });
  // The ring is a preference: a worker whose poll comes just then takes what it finds. Nine would be no preference at all.
  expect(keys.reduce((sum, { by }) => sum + by.length, 0)).toBeLessThanOrEqual(6);
});

longTest(
  '6: shards of a hot key run side by side, and a poison job ends as a dead letter among others',
  async () => {
    const hot = await play<FleetState>('fleet', 'hot');
    const most = (frames: readonly Frame<FleetState>[]) =>
      Math.max(
        ...frames.map(({ state }) => state.workers.flatMap(({ running }) => running).length),
      );
    const half = hot.findIndex(({ say }) => /8 shards/.test(say));
    expect(most(hot.slice(0, half))).toBe(1);
    expect(most(hot.slice(half))).toBeGreaterThan(3);
    const poison = last(await play<FleetState>('fleet', 'poison')).state;
    expect(poison.counts).toMatchObject({ accepted: 41, done: 40, deadLetters: 1, lost: 0 });
  },
);

/** Crashes at some places of a checkout, or at all of them. */
async function crashed(settings: Settings, names?: readonly string[], whens = ['before', 'after']) {
  const frames = (await lab.open('checkout', 1, settings)) as Frame<CheckoutState>[];
  const { statements } = last(frames).state;
  const places = statements.flatMap((name, n) => (names && !names.includes(name) ? [] : [n + 1]));
  for (const nth of places)
    for (const when of whens)
      frames.push(...((await lab.act({ do: 'crash', nth, when })) as Frame<CheckoutState>[]));
  return {
    frames,
    statements,
    crashes: last(frames).state.crashed,
    places: whens.length * places.length,
  };
}
const wrongs = ({ crashes }: Awaited<ReturnType<typeof crashed>>) =>
  crashes.flatMap(({ wrong }) => wrong);

test(`7: a checkout is crashed at ${long('some of its statements', 'every statement')}, and nothing happens twice`, async () => {
  const some = long(['insert_children', 'load_children', 'complete'], undefined);
  const sweep = await crashed({}, some);
  expect(sweep.statements).toEqual(
    expect.arrayContaining(['record_step', 'COMMIT', 'suspend', 'insert_children', 'complete']),
  );
  expect(sweep.crashes).toHaveLength(sweep.places);
  expect(wrongs(sweep)).toEqual([]);
  expect(last(sweep.frames).state.usual).toMatchObject({
    ...{ charge: { happened: 1 }, reserve: { happened: 1 }, ship: { happened: 2 } },
    receipt: { happened: 1 },
  });
}, 120_000);

longTest(
  '7: without the keys of its steps some effects happen twice, but not those of transactions',
  async () => {
    // What has an undo is recorded by two statements: that it begins, and how it ended.
    const some = ['record_step', 'record_steps', 'INSERT INTO shop'];
    const careless = await crashed({ keys: false }, some, ['before']);
    expect(new Set(wrongs(careless))).toEqual(new Set(['charge', 'label', 'slip']));
  },
  120_000,
);

test('7: one that cannot be shipped undoes each step once, wherever it crashes', async () => {
  const undone = await crashed({ fails: true }, long(['dead_letter'], undefined));
  expect(undone.crashes).toHaveLength(undone.places);
  expect(wrongs(undone)).toEqual([]);
  const { usual, run } = last(undone.frames).state;
  expect(run).toMatchObject({ status: 'dead_letter' });
  expect(usual).toMatchObject({ refund: { happened: 1 }, ship: { happened: 0 } });
  expect(usual['put back'].happened).toBe(1);
}, 120_000);

longTest(
  '7: the parts of its course come by every place in turn',
  async () => {
    const acts = COURSES.checkout?.[0]?.acts ?? [];
    const parts = long(1, acts.length);
    const frames = (await lab.open('checkout', 1)) as Frame<CheckoutState>[];
    for (const act of acts.slice(0, parts))
      frames.push(...((await lab.act(act)) as Frame<CheckoutState>[]));
    const { crashed: seen, points, statements } = last(frames).state;
    expect(points).toBe(2 * statements.length);
    expect(seen).toHaveLength(Math.round((points * parts) / acts.length));
    expect(seen.map(({ nth, when }) => [nth, when]).slice(0, 3)).toEqual([
      ...[
        [1, 'before'],
        [1, 'after'],
        [2, 'before'],
      ],
    ]);
    // Killed before its record, the charge ran again, and the bank did it once.
    const { tally } = frames[3]?.state ?? {};
    expect(tally?.charge).toEqual({ ran: 2, happened: 1 });
    if (parts === acts.length) expect(last(frames).say).toMatch(/nothing happened twice/);
  },
  120_000,
);

test('the same seed gives the same frames', async () => {
  const once = async (seed: number) => {
    const frames = await lab.open('fleet', seed);
    frames.push(...(await lab.act({ do: 'burst' })), ...(await lab.advance(2_000)));
    return JSON.stringify(frames);
  };
  const first = await once(5);
  expect(await once(5)).toBe(first);
  expect(await once(6)).not.toBe(first);
});

test('files of other migrations are not used: the tables are made, and the reason is said', async () => {
  const pglite = await PGlite.create({ loadDataDir: builtFiles() });
  await pglite.exec(`COMMENT ON SCHEMA holdfast IS 'other'`);
  const create: Create = async ({ loadDataDir }) => {
    // In place of initdb, which takes seconds.
    if (!loadDataDir) await pglite.exec('DROP SCHEMA holdfast CASCADE');
    return pglite;
  };
  const why: string[] = [];
  const opened = await openServer(create, builtFiles(), (text) => why.push(text));
  expect(why).toEqual([expect.stringMatching(/made by other migrations/)]);
  expect(opened.rows('SELECT name FROM holdfast.queues ORDER BY name')).toEqual([
    ['inbox'],
    ['ordered'],
  ]);
  await pglite.close();
});
