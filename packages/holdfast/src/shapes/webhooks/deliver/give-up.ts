/** Disabling an endpoint for Holdfast itself: the state, the row in the audit and the job that tells of it commit together. */
import { recordOf, together } from '../../../api/act/acts.js';
import { describeError } from '../../../job/errors/failure.js';
import type { Deps } from '../deps.js';
import { show, turn } from '../rows/endpoints.js';

const BY = 'holdfast';

/** True: it is disabled now, by whomever. What fails here fails again after the next attempt. */
export async function giveUp(
  { hf, log, names, pool, settings }: Deps,
  { id }: { readonly id: string },
  reason: string,
): Promise<boolean> {
  const { onDisabled } = settings;
  try {
    const told = await together(pool(), async (db, client) => {
      const was = await turn(db, names, id, 'disabled', { reason, by: BY });
      if (was !== 'active') return was !== null;
      const act = {
        act: 'disable_webhook',
        queue: names.queue,
        changes: { endpoint: id },
      } as const;
      await recordOf(act, { reason, actor: BY })?.add(db, names);
      const endpoint = await show(db, names, id);
      if (onDisabled && endpoint) {
        const { tenant, url } = endpoint;
        const payload = { endpoint: id, tenant, url, reason };
        await hf.enqueue(onDisabled, payload, { tx: client });
      }
      return 'now';
    });
    if (told === 'now') log.warn({ endpoint: id, reason }, 'a webhook endpoint was disabled');
    return told !== false;
  } catch (error) {
    log.error(
      { endpoint: id, err: describeError(error).message },
      'a webhook endpoint could not be disabled',
    );
    return false;
  }
}
