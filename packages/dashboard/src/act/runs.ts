/** What people do with runs of workflows: send a signal, cancel with or without undo, retry from a step. */
import { checkId, checkKey, encodePayload, signalRun } from 'holdfast/internal';
import { type Body, needed, text } from '../guard/input.js';
import { Refused } from '../guard/reply.js';
import { type Act, actOptions, queueOf } from './acts.js';

function flag(body: Body, name: string): boolean {
  const value = body[name] ?? false;
  if (typeof value === 'boolean') return value;
  throw new Refused(400, `${name} is neither true nor false; nothing was done.`);
}

const consequence = 'nothing was sent';
const NOT_SENT = `${consequence}; use a short text such as "approved"`;

/** `value` is what the signal carries; without it, the signal carries nothing. */
export const signal: Act = async ({ parts, access }, acted) => {
  const { body, params } = acted;
  const [name, key] = [needed(body, 'name'), text(body, 'key')];
  const limits = { maxBytes: access.maxPayloadBytes, what: 'the signal', consequence };
  const sent = await signalRun(
    parts.pool(),
    access.names(queueOf(body)),
    {
      ...{ run: checkId(params.id), name: checkKey(name, 'name of the signal', NOT_SENT) },
      key: key === undefined ? null : checkKey(key, 'key', NOT_SENT),
      value: body.value === undefined ? null : encodePayload(body.value, limits),
    },
    actOptions(acted),
  );
  return { sent };
};

export const cancel: Act = async ({ hf }, acted) => {
  const { body, params } = acted;
  const moved = await hf.cancel([params.id as string], {
    ...{ queue: queueOf(body), undo: flag(body, 'undo'), children: flag(body, 'children') },
    ...actOptions(acted),
  });
  return { moved };
};

/** `from`: the name of a step, which is done again with all that was asked for after it. */
export const retry: Act = async ({ hf }, acted) => {
  const { body, params } = acted;
  const from = text(body, 'from');
  const moved = await hf.retry([params.id as string], {
    ...{ queue: queueOf(body), ...(from !== undefined && { from }) },
    ...actOptions(acted),
  });
  return { moved };
};
