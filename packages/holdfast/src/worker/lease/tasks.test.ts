/** Tasks on one connection: which one runs next, and what a failure costs the others. No database is needed. */
import { expect, onTestFinished, test } from 'vitest';
import { until } from '../../../../../test/support/until.js';
import type { Executor } from '../../postgres/queryable.js';
import { monotonicMs } from './protocol.js';
import { startTasks, type Task } from './tasks.js';

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

function running(connection: ReturnType<typeof line>, tasks: Task[], paused = () => false) {
  const errors: string[] = [];
  const error = (what: string) => void errors.push(what);
  const shared = startTasks({ connection, tasks, paused, error });
  onTestFinished(() => shared.stop());
  return { errors, shared };
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

test('a task that always fails, and slowly, does not keep the one behind it waiting', async () => {
  const slow: Task = {
    what: 'slow',
    run: async () => {
      await waits(60);
      throw new Error('no answer');
    },
  };
  const renew = counted('renew', 10);
  const { errors } = running(line(), [slow, renew]);
  let failures = 0;
  for (let n = 0; n < 5; n++) {
    const runs = renew.runs;
    await until('it fails again', () => errors.length > failures);
    failures = errors.length;
    await until('the other runs', () => renew.runs > runs);
    expect(errors.length).toBe(failures);
  }
});

test('of tasks that are all overdue the first of the list runs first', async () => {
  const order: string[] = [];
  const task = (what: string): Task => ({
    what,
    run: async () => {
      order.push(what);
      return 60_000;
    },
  });
  let frozen = true;
  running(line(), [task('check'), task('renew')], () => frozen);
  await waits(60);
  expect(order).toEqual([]);
  frozen = false;
  await until('both ran', () => order.length === 2);
  expect(order).toEqual(['check', 'renew']);
});

test('a connection that breaks is made again at once, and everything is due on it', async () => {
  const connection = line();
  const check = counted('check', 60_000);
  running(connection, [check]);
  await until('it has checked', () => check.runs === 1);
  await waits(60);
  const at = monotonicMs();
  connection.lose();
  await until('it has checked again', () => check.runs === 2, { everyMs: 1 });
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
  const check = counted('check', 60_000);
  const { errors } = running(connection, [check]);
  await waits(600);
  expect(tries).toBeGreaterThan(1);
  expect(tries).toBeLessThan(30);
  expect(errors).toEqual(['connecting the keeper']);
  connection.up = true;
  await until('it has checked', () => check.runs === 1);
});

test('what is hurried is due now, and nothing runs after a stop', async () => {
  const check = counted('check', 60_000);
  const { shared } = running(line(), [check]);
  await until('it has checked', () => check.runs === 1);
  shared.runNow();
  await until('it has checked again', () => check.runs === 2);
  shared.stop();
  shared.runNow();
  await waits(50);
  expect(check.runs).toBe(2);
});
