/** What people do with endpoints of webhooks. A test is sent by a worker: the dashboard makes no requests. */
import { webhooks } from 'holdfast/webhooks';
import { ids } from '../guard/input.js';
import { Refused } from '../guard/reply.js';
import { queueOfEndpoint } from '../read/webhooks.js';
import { type Act, actOptions } from './acts.js';

const VERBS = ['disable', 'enable', 'rotate', 'test', 'resend'] as const;

/** `rotate` answers with the new secret, once. */
export const webhook: Act = async (context, acted) => {
  const { body, params } = acted;
  const id = params.id as string;
  const verb = VERBS.find((one) => one === body.verb);
  if (!verb) throw new Refused(400, `verb must be one of ${VERBS.join(', ')}; nothing was done.`);
  const hooks = webhooks(context.hf, { queue: await queueOfEndpoint(context, id) });
  const call = actOptions(acted);
  if (verb === 'test') return hooks.test(id);
  if (verb === 'resend') return { moved: await hooks.resend(ids(body), call) };
  if (verb === 'rotate') return hooks.endpoints.rotate(id, call);
  const endpoint = await hooks.endpoints[verb](id, call);
  return { state: endpoint.state, replayed: 'replayed' in endpoint ? endpoint.replayed : 0 };
};
