/** Tasks on one connection: whose turn it is, and what a failure costs the others. No database is needed. */
import { expect, onTestFinished, test } from 'vitest';
import { until } from '../../../test/support/until.js';
import type { Executor } from '../../postgres/queryable.js';
import { monotonicMs } from './protocol.js';
import { type Task, Turns } from './turns.js';

const session = () => ({ run: async () => [] }) as unknown as Executor;

/** A connection that opens when `up` is set, and that a test can break. */
function line(up = true) {
  const state = {
    up,
    opened: 0,
    db: null as Executor | null,
    onLost: () => {},
    async open() {
      if (!state.up) throw new Error('refused');
      state.opened++;
      state.db = session();
    },
    failed() {
      state.db = null;
    },
    lose() {
      state.db = null;
      state.onLost();
    },
  };
  return state;
}

function turns(connection: ReturnType<typeof line>, tasks: Task[], paused = () => false) {
  const errors: string[] = [];
  const error = (what: string) => void errors.push(what);
  const running = new Turns({ connection, tasks, paused, error });
  onTestFinished(() => running.stop());
  return { errors, turns: running };
}

/** A task that counts its runs and is due again after a while. */
function counted(what: string, everyMs: number) {
  const task = {
    what,
    runs: 0,
    run: async () => {
      task.runs++;
      return everyMs;
    },
  };
  return task;
}

const waits = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

test('a task that always fails, and slowly, does not keep the one behind it from its turns', async () => {
  const slow: Task = {
    what: 'slow',
    run: async () => {
      await waits(60);
      throw new Error('no answer');
    },
  };
  const renew = counted('renew', 10);
  const { errors } = turns(line(), [slow, renew]);
  let failures = 0;
  for (let n = 0; n < 5; n++) {
    const runs = renew.runs;
    await until('it fails again', () => errors.length > failures);
    failures = errors.length;
    await until('the other has its turn', () => renew.runs > runs);
    expect(errors.length).toBe(failures);
  }
});

test('of tasks that are all overdue the first of the list has the first turn', async () => {
  const order: string[] = [];
  const task = (what: string): Task => ({
    what,
    run: async () => {
      order.push(what);
      return 60_000;
    },
  });
  let frozen = true;
  turns(line(), [task('look'), task('renew')], () => frozen);
  await waits(60);
  expect(order).toEqual([]);
  frozen = false;
  await until('both ran', () => order.length === 2);
  expect(order).toEqual(['look', 'renew']);
});

test('a connection that breaks is made again at once, and everything is due on it', async () => {
  const connection = line();
  const look = counted('look', 60_000);
  turns(connection, [look]);
  await until('it has looked', () => look.runs === 1);
  await waits(60);
  const at = monotonicMs();
  connection.lose();
  await until('it has looked again', () => look.runs === 2, { everyMs: 1 });
  expect(monotonicMs() - at).toBeLessThan(500);
  expect(connection.opened).toBe(2);
});

test('a database that is away is tried with a backoff, and reported once in a while', async () => {
  const connection = line(false);
  let tries = 0;
  const { open } = connection;
  connection.open = () => {
    tries++;
    return open();
  };
  const look = counted('look', 60_000);
  const { errors } = turns(connection, [look]);
  await waits(600);
  expect(tries).toBeGreaterThan(1);
  expect(tries).toBeLessThan(30);
  expect(errors).toEqual(['connecting the keeper']);
  connection.up = true;
  await until('it has looked', () => look.runs === 1);
});

test('what is hurried is due now, and nothing runs after a stop', async () => {
  const look = counted('look', 60_000);
  const { turns: running } = turns(line(), [look]);
  await until('it has looked', () => look.runs === 1);
  running.runNow();
  await until('it has looked again', () => look.runs === 2);
  running.stop();
  running.runNow();
  await waits(50);
  expect(look.runs).toBe(2);
});
