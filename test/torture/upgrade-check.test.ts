/** The part of the torture's checker that judges the upgrade of the engine: a good one passes, each bad one is found. */
import { expect, test } from 'vitest';
import { CHECKS } from '../../torture/check/index.mjs';

type Row = Record<string, unknown>;

const OLD = 'vm-101-aa';
const NEW = 'vm-202-bb';
const MIGRATED_AT = 1_000;
const REPLACED_AT = 2_000;

const INDEXES = ['inbox_claim_idx', 'inbox_slot_idx'];
const STATES = { waiting: 9, scheduled: 2, running: 3, dead: 1, limits: 2, archived: 70 };

const step = (name: string, facts: Row): Row => ({ op: 'upgrade', step: name, ...facts });
const done = (id: string, owner: string, at: number): Row => ({
  ...{ id, owner, at, status: 'completed' },
});

function good() {
  return {
    history: [
      { op: 'worker', phase: 'invoke', pid: 101, release: 'old' },
      { op: 'worker', phase: 'invoke', pid: 202, release: 'new' },
      step('before', { ...STATES, oldIndexes: INDEXES }),
      step('migrate', { code: null, signal: 'SIGKILL' }),
      step('migrate', { code: 0 }),
      step('migrated', { wall: MIGRATED_AT, oldIndexes: INDEXES }),
      step('replace', { hit: true }),
      step('replaced', { wall: REPLACED_AT, oldAlive: 0 }),
      step('finished', { oldIndexes: [] }),
    ] as Row[],
    state: {
      jobs: [
        done('a', OLD, MIGRATED_AT - 1),
        done('b', OLD, MIGRATED_AT + 1),
        done('c', NEW, REPLACED_AT - 1),
        done('d', NEW, REPLACED_AT + 1),
      ],
      witness: [{ kind: 'claimed', job: 'd', owner: OLD }] as Row[],
    },
    run: {},
  };
}

type Story = ReturnType<typeof good>;
const check = (story: Story) => {
  const of = CHECKS.upgrade;
  if (!of) throw new Error('The checker has no such part.');
  return of(story);
};
const spoilStep = (story: Story, name: string, facts: Row) =>
  Object.assign(story.history.find((line) => line.step === name) as Row, facts);
const without = (story: Story, id: string) => {
  story.state.jobs = story.state.jobs.filter((job) => job.id !== id);
};

test('an upgrade that went well passes, and is counted', () => {
  expect(check(good())).toMatchObject({
    violations: [],
    counts: {
      upgrade: {
        ...{ running: 3, byOldBefore: 1, byOldAfter: 1, byNewBeside: 1, handedOver: 1 },
        ...{ migrationsEndedEarly: 1, replaced: 1 },
      },
    },
  });
});

test('a run without an upgrade has nothing to answer for', () => {
  expect(check({ ...good(), history: [] })).toEqual({ violations: [], counts: {} });
});

test.each<[what: string, spoil: (story: Story) => unknown, found: RegExp]>([
  [
    'it broke off',
    ({ history }) => {
      history.pop();
      history.push(step('failed', { error: 'migrate did not succeed in 12 attempts' }));
    },
    /migrate did not succeed.*\n.*did not come to its end/,
  ],
  [
    'there was nothing in one of the states',
    (story) => spoilStep(story, 'before', { dead: 0 }),
    /the migration found nothing dead/,
  ],
  [
    'old workers lost an index',
    (story) => spoilStep(story, 'migrated', { oldIndexes: ['inbox_slot_idx'] }),
    /dropped indexes that old workers read/,
  ],
  [
    'killed workers count as alive',
    (story) => spoilStep(story, 'replaced', { oldAlive: 2 }),
    /2 old workers, which have ended, count as alive/,
  ],
  [
    'indexes were left that nobody reads',
    (story) => spoilStep(story, 'finished', { oldIndexes: ['inbox_slot_idx'] }),
    /nobody needs them, and they are there: inbox_slot_idx/,
  ],
  ['old workers stood still', (story) => without(story, 'b'), /by an old worker after/],
  ['new workers stood still', (story) => without(story, 'c'), /by a new worker while old ones/],
  [
    'nothing was handed over',
    ({ state }) => state.witness.pop(),
    /claimed by an old worker and completed by a new one/,
  ],
])('it is found that %s', (_what, spoil, found) => {
  const story = good();
  spoil(story);
  expect(check(story).violations.join('\n')).toMatch(found);
});
