/** The webhooks of one queue, for the commands. They make no request: where a URL leads is for workers to check. */
import { defined } from '../../../job/options/known-options.js';
import { MOST_ENDPOINTS } from '../../../shapes/webhooks/options.js';
import { webhooks } from '../../../shapes/webhooks/webhooks.js';
import { actOptions } from '../../actor.js';
import type { Call } from '../../command.js';
import { UsageError } from '../../failures.js';
import { checkIds, countOption } from '../../parse/values.js';

/** Whoever may write to the database: workers guard every request, and the cap is for what customers make. */
const TRUSTED = { allow: ['0.0.0.0/0', '::/0'], allowHttp: true, maxEndpoints: MOST_ENDPOINTS };

export async function hooksOf({ given, session }: Call) {
  const { holdfast } = await import('../../../holdfast.js');
  const hf = holdfast({ ...session.address, pool: session.pool, schema: session.schema });
  const queue = given.text('queue') ?? 'webhooks';
  await session.queues([queue]);
  return { hf, hooks: webhooks(hf, { queue, ...TRUSTED }), act: actOptions(given) };
}

export function endpointId({ args }: Call): string {
  const [id, ...more] = args;
  if (id !== undefined && more.length === 0) return checkIds([id])[0] as string;
  throw new UsageError('Say which endpoint, by its id: holdfast webhooks ls lists them.');
}

export const pageOf = ({ given }: Call, place: string) =>
  defined({ limit: countOption(given, 'limit', 50), [place]: given.text('after') });
