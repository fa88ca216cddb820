/** Options of `queues create` and `queues set` that say how the keys of a queue share its workers. */
import type { TurnOptions } from '../../job/turns.js';
import type { Given, Options } from '../command.js';
import { UsageError } from '../failures.js';

export const TURNS: Options = {
  'per-key': {
    type: 'string',
    value: 'N|none',
    help: 'at most so many jobs of a key at once, in the whole fleet',
  },
  'per-group': {
    type: 'string',
    value: 'N|none',
    help: 'at most so many jobs of a group at once, in the whole fleet',
  },
  fair: {
    type: 'string',
    value: 'on|off',
    help: 'keys take turns: one with many jobs does not hold up the others',
  },
  weights: {
    type: 'string',
    value: 'JSON',
    help: `with --fair on: how many jobs a key gets a turn, '{"tenant:7": 3}'`,
  },
};

const count = (given: Given, name: string): number | null | undefined => {
  const text = given.text(name);
  if (text === undefined || text === 'none') return text && null;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new UsageError(`--${name} must be a whole number or none, not "${text}".`);
};

function weightsOf(text: string | undefined): TurnOptions['weights'] {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    throw new UsageError(`--weights must be JSON such as '{"tenant:7": 3}'. Nothing was set.`);
  }
}

/** What was given; the rest is checked where it is used. */
export function turnOptions(given: Given): TurnOptions {
  const fair = given.text('fair');
  if (fair !== undefined && fair !== 'on' && fair !== 'off')
    throw new UsageError(`--fair must be on or off, not "${fair}".`);
  const options = {
    perKey: count(given, 'per-key'),
    perGroup: count(given, 'per-group'),
    fair: fair && fair === 'on',
    weights: weightsOf(given.text('weights')),
  };
  const set = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(set) as TurnOptions;
}
