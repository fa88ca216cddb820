/** Two attempts in lockstep, without a database: who may take which step when. */
import { expect, test } from 'vitest';
import { Lockstep } from './lockstep.js';
import type { Step } from './steps.js';

const step = (kind: Step['kind']): Step => ({ kind, name: kind, moment: `before ${kind}` });

function recorded() {
  const { owner, stale } = Lockstep.pair();
  const order: string[] = [];
  const take = async (who: 'owner' | 'stale', kind: Step['kind']) => {
    const attempt = who === 'owner' ? owner : stale;
    await attempt.before(step(kind));
    order.push(`${who} ${kind}`);
    await attempt.after(step(kind));
  };
  return { owner, stale, order, take };
}

test('nobody takes a step before the other has come to it', async () => {
  const { order, take } = recorded();
  const fast = take('owner', 'query').then(() => take('owner', 'query'));
  await new Promise(setImmediate);
  expect(order).toEqual([]);
  await take('stale', 'query');
  await new Promise(setImmediate);
  expect(order.filter((one) => one === 'owner query')).toHaveLength(1);
  await take('stale', 'query');
  await fast;
  expect(order).toHaveLength(4);
});

test('the one whose lease is gone enters ctx.once when the owner has left it', async () => {
  const { order, take } = recorded();
  const waits = take('stale', 'once');
  await take('owner', 'once');
  await new Promise(setImmediate);
  expect(order).toEqual(['owner once']);
  await take('owner', 'marker');
  await waits;
  expect(order).toEqual(['owner once', 'owner marker', 'stale once']);
});

test('several steps that are under way at once wait each for its own', async () => {
  const { order, take } = recorded();
  const both = Promise.all([take('owner', 'query'), take('owner', 'query')]);
  await take('stale', 'query');
  await new Promise(setImmediate);
  expect(order.filter((one) => one === 'owner query')).toHaveLength(1);
  await take('stale', 'query');
  await both;
  expect(order).toHaveLength(4);
});

test('two effects at once are entered when the owner has left as many', async () => {
  const { order, take } = recorded();
  const waits = [take('stale', 'once'), take('stale', 'once')];
  await take('owner', 'once');
  await take('owner', 'marker');
  await new Promise(setImmediate);
  expect(order.filter((one) => one === 'stale once')).toHaveLength(1);
  await take('owner', 'marker');
  await Promise.all(waits);
  expect(order.filter((one) => one === 'stale once')).toHaveLength(2);
});

test('whoever is left goes on when the other has ended', async () => {
  const { owner, order, take } = recorded();
  const waits = take('stale', 'completion');
  owner.over();
  await waits;
  expect(order).toEqual(['stale completion']);
});
