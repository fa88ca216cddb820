/** Options that several commands share. */
import type { Options } from '../command.js';
import { FILTERS } from './filters.js';

export const QUEUE: Options = { queue: FILTERS.queue as Options[string] };

export const LIST: Options = {
  limit: { type: 'string', short: 'n', value: 'N', help: 'at most so many; default 50' },
  after: { type: 'string', value: 'PLACE', help: 'go on where an earlier list ended' },
  all: { type: 'boolean', help: 'to the end, however long it takes' },
};

export const REASON: Options = {
  reason: { type: 'string', value: 'TEXT', help: 'why; kept in the audit' },
};

export const YES: Options = { yes: { type: 'boolean', short: 'y', help: 'do not ask' } };
const dryRun: Options[string] = { type: 'boolean', help: 'only say how many' };

/** Of what asks before it acts. */
export const ASKING: Options = { ...YES, 'dry-run': dryRun };

export const ACT: Options = {
  all: { type: 'boolean', help: 'all of them, without a filter' },
  ...ASKING,
  batch: { type: 'string', value: 'N', help: 'so many in one statement; default 1000' },
  ...REASON,
};

export const BULK =
  'By id, or by a filter. Many jobs go in batches that commit one by one: it can be interrupted at any\n' +
  'time, and the same command goes on with the rest.';
