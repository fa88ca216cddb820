/** What people do with projections. To carry cursors into another cluster is for the command line: workers must be stopped. */
import { projections } from 'holdfast/projections';
import { needed, text } from '../guard/input.js';
import { Refused } from '../guard/reply.js';
import { type Act, actOptions } from './acts.js';

const VERBS = ['resume', 'skip', 'rebuild', 'promote', 'remove'] as const;

export const projection: Act = async ({ hf }, acted) => {
  const { body } = acted;
  const verb = VERBS.find((one) => one === body.verb);
  if (!verb) throw new Refused(400, `verb must be one of ${VERBS.join(', ')}; nothing was done.`);
  const name = needed(body, 'name');
  const call = actOptions(acted);
  const all = projections(hf);
  if (verb === 'rebuild') return { build: await all.rebuild(name, call) };
  if (verb === 'skip') return { keys: await all.skip(name, needed(body, 'event'), call) };
  if (verb === 'resume') {
    // A body that lost its key must not let all keys go on.
    const one = 'key' in body ? { key: needed(body, 'key') } : {};
    return { keys: await all.resume(name, { ...one, ...call }) };
  }
  const version = Number(text(body, 'version') ?? Number.NaN);
  if (!Number.isSafeInteger(version))
    throw new Refused(400, 'version is missing; nothing was done.');
  return verb === 'promote'
    ? { build: await all.promote(name, { version, ...call }) }
    : { removed: await all.remove(name, { version, ...call }) };
};
