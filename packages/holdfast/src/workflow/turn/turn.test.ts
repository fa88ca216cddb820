/** What a turn does when its code does not ask for what is recorded, and when it is stopped: without a database. */
import { expect, test } from 'vitest';
import { workflow } from '../definition.js';
import type { Flow } from '../flow.js';
import type { Marker } from '../marker.js';
import { flowOf } from './flow-of.js';
import type { TurnPorts } from './ports.js';
import { Turn } from './turn.js';

const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const definition = workflow<null>('checkout');

const wait = (name: string, nth: number): Marker => ({
  ...{ name, kind: 'w', nth, place: null, attempt: null, remaining: null },
  ...{ value: '["go"]', error: null, dueInMs: null },
});

function turnOf(ports: Partial<TurnPorts>) {
  let clock = 0;
  const never = () => new Promise<never>(() => {});
  return new Turn(
    {
      ...{ id: 'r', type: 'checkout', version: 1, attempt: 1, crashes: 0, maxAttempts: 25 },
      ...{ isNew: false, createdAt: new Date(0), headers: {}, log: quiet },
      ...{ signal: new AbortController().signal, maxBytes: 1_000 },
    },
    {
      ...{ load: never, record: never, suspend: never, progress: never, transact: never },
      ...{ spawn: never, outcomes: never, restart: never },
      pause: async (ms) => {
        clock += ms;
      },
      now: () => clock,
      ...ports,
    },
  );
}

const run = (turn: Turn, body: (flow: Flow) => unknown) =>
  turn.run(() => body(flowOf(turn, definition as never) as Flow));

test('code that waits for one of two recorded waits is changed code, and does not hold its handler for ever', async () => {
  const load = async () => ({ undoAsked: null, markers: [wait('a', 1), wait('b', 2)] });
  const end = await run(turnOf({ load }), (flow) => flow.wait('b', 'go'));
  expect(end).toMatchObject({
    kind: 'dead',
    error: {
      code: 'WORKFLOW_CHANGED',
      message: expect.stringContaining('The wait "a" is recorded, and the code asks for "b"'),
    },
  });
});

test('a turn that is stopped before or while it reads its steps ends', async () => {
  const end = { kind: 'threw', error: new Error('lost') } as const;
  const before = turnOf({});
  before.stop(end);
  expect(await run(before, () => 1)).toBe(end);
  const meanwhile = turnOf({});
  const ended = run(meanwhile, () => 1);
  meanwhile.stop(end);
  expect(await ended).toBe(end);
});
