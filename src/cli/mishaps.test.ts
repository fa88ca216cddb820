/** The lines of `holdfast work` about jobs that failed. */
import { expect, test } from 'vitest';
import type { WorkerEvent } from '../index.js';
import { Mishaps } from './mishaps.js';

const event = (kind: 'failed' | 'dead_letter' | 'completed', id: string, type = 'send_receipt') =>
  ({ kind, id, type, queue: 'inbox', generation: 1 }) satisfies WorkerEvent;

test('a failure and a dead letter get a line each; what fails often one a second, with a count', () => {
  const said: string[] = [];
  const mishaps = new Mishaps((line) => said.push(line));
  mishaps.record(event('completed', 'a'), 0);
  mishaps.record(event('failed', 'b'), 0);
  for (let n = 1; n < 100; n++) mishaps.record(event('failed', `b${n}`), n);
  mishaps.record(event('failed', 'x', 'refund'), 500);
  mishaps.record(event('dead_letter', 'c'), 900);
  mishaps.record(event('failed', 'd'), 1_000);
  expect(said).toEqual([
    'send_receipt b failed and will be tried again: holdfast explain b',
    'refund x failed and will be tried again: holdfast explain x',
    'send_receipt c is a dead letter now: holdfast explain c',
    'send_receipt d failed and will be tried again (and 99 more of this type since): holdfast explain d',
  ]);
});
