import { expect, test } from 'vitest';
import type { ClaimedJob } from '../take.js';
import { goesOn, type LineRequest } from './claim.js';

const lines = [1, 2, 3].map((priority) => ({ type: 'a', version: 1, priority }) as LineRequest);
const jobs = (...priorities: number[]) =>
  priorities.map((priority) => ({ priority }) as ClaimedJob);
const unread = (taken: ClaimedJob[], found: number, limit: number) => [
  ...goesOn(lines, taken, found, limit),
];

test('a claim that found less than it wanted has read every line', () => {
  expect(unread(jobs(1, 2), 2, 3)).toEqual([]);
});

test('a full claim goes on in the line of its last job and in those behind it', () => {
  expect(unread(jobs(1, 2), 2, 2)).toEqual([1, 2]);
});

test('where a row was changed while the claim ran, no line counts as read to its end', () => {
  expect(unread(jobs(1, 2), 3, 3)).toEqual([0, 1, 2]);
  expect(unread(jobs(1), 2, 3)).toEqual([0, 1, 2]);
  expect(unread([], 1, 3)).toEqual([0, 1, 2]);
});
