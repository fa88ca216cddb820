/** What people do with endpoints of webhooks. A test is sent by a worker: the dashboard makes no requests. */
import { type EndpointChanges, webhooks } from 'holdfast/webhooks';
import { type Body, ids } from '../guard/input.js';
import { Refused } from '../guard/reply.js';
import { queueOfEndpoint } from '../read/webhooks.js';
import { type Act, actOptions } from './acts.js';

const VERBS = ['disable', 'enable', 'rotate', 'test', 'resend', 'set'] as const;
/** Where a URL leads is checked by workers, for every request. */
const ANYWHERE = { allow: ['0.0.0.0/0', '::/0'], allowHttp: true };

function changesOf({ changes }: Body): EndpointChanges {
  if (typeof changes === 'object' && changes !== null && !Array.isArray(changes)) return changes;
  throw new Refused(400, 'changes is missing; nothing was done.');
}

/** `rotate` answers with the new secret, once. */
export const webhook: Act = async (context, acted) => {
  const { body, params } = acted;
  const id = params.id as string;
  const verb = VERBS.find((one) => one === body.verb);
  if (!verb) throw new Refused(400, `verb must be one of ${VERBS.join(', ')}; nothing was done.`);
  const hooks = webhooks(context.hf, { ...ANYWHERE, queue: await queueOfEndpoint(context, id) });
  const call = actOptions(acted);
  if (verb === 'test') return hooks.test(id);
  if (verb === 'resend') return { moved: await hooks.resend(ids(body), call) };
  if (verb === 'rotate') return hooks.endpoints.rotate(id, call);
  if (verb === 'set') {
    const { headers } = await hooks.endpoints.update(id, changesOf(body), call);
    return { headers };
  }
  const endpoint = await hooks.endpoints[verb](id, call);
  return { state: endpoint.state, replayed: 'replayed' in endpoint ? endpoint.replayed : 0 };
};
