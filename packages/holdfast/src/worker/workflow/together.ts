/**
 * Asks of many turns become statements, many at a time: while one is in flight the next ones gather. What may pass is asked
 * again until the database answers; a run that is not among the answers is lost. A statement that is refused is split, until
 * the one that is to blame is alone and hears of it.
 */
import { Backoff, pause } from '../../postgres/connect/backoff.js';
import { mayPass } from '../../postgres/connect/pool.js';
import { isRefusedToAll, isTableLocked } from '../../postgres/connect/transient.js';
import { MAX_ROWS } from '../../postgres/statement.js';
import { isDuplicate, type Owner } from '../../workflow/rows/record.js';
import type { SharedDeps } from '../deps.js';
import { leaseLost } from '../run/handler-context.js';
import { isAlive } from '../settle/settlements.js';

export interface TogetherDeps extends Pick<SharedDeps, 'standing' | 'time' | 'reportError'> {
  readonly abandoned: AbortSignal;
}

interface Waiting<Item, Answer> {
  readonly item: Item;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/** `ask` returns the answers by the id of the run. `again`: an earlier try of it may have been done, its answer lost. */
export function together<Item extends { readonly owner: Owner }, Answer>(
  deps: TogetherDeps,
  what: string,
  ask: (items: readonly Item[], again: boolean) => Promise<ReadonlyMap<string, Answer>>,
) {
  const { reportError, abandoned } = deps;
  const waiting: Waiting<Item, Answer>[] = [];
  let busy = false;

  async function drain(): Promise<void> {
    while (waiting.length > 0) {
      const worker = waiting[0]?.item.owner.workerId;
      // A turn that has lost its run must not write under the fence of the one that has it now.
      const generations = new Map<string, number>();
      let count = 0;
      while (count < MAX_ROWS) {
        const owner = waiting[count]?.item.owner;
        if (!owner || owner.workerId !== worker) break;
        const { id, generation } = owner;
        if ((generations.get(id) ?? generation) !== generation) break;
        generations.set(id, generation);
        count++;
      }
      await send(waiting.splice(0, count));
    }
    busy = false;
  }

  async function send(group: readonly Waiting<Item, Answer>[], before = false): Promise<void> {
    let again = before;
    const backoff = new Backoff();
    const owner = group[0]?.item.owner as Owner;
    for (;;) {
      try {
        const alive = await isAlive(deps, owner.workerId);
        const answers = alive ? await ask(sorted(group), again) : new Map<string, Answer>();
        for (const { item, resolve, reject } of group) {
          const { id } = item.owner;
          if (answers.has(id)) resolve(answers.get(id) as Answer);
          else reject(leaseLost(id, what));
        }
        return;
      } catch (error) {
        again = true;
        reportError(`${what} of ${group.length} runs`, error);
        const passes =
          mayPass(error) || isDuplicate(error) || isRefusedToAll(error) || isTableLocked(error);
        if (passes && !abandoned.aborted) await pause(backoff.nextMs(), abandoned);
        else if (group.length === 1 || passes) {
          for (const { reject } of group) reject(error);
          return;
        } else {
          for (const one of group) await send([one], again);
          return;
        }
      }
    }
  }

  /** In the order in which rows are locked. */
  const sorted = (group: readonly Waiting<Item, Answer>[]): Item[] =>
    group.map(({ item }) => item).sort((a, b) => (a.owner.id < b.owner.id ? -1 : 1));

  return (item: Item): Promise<Answer> =>
    new Promise((resolve, reject) => {
      waiting.push({ item, resolve, reject });
      if (busy) return;
      busy = true;
      // Those of other runs that go on with the same answer come along.
      process.nextTick(() => void drain());
    });
}
