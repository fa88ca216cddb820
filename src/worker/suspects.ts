/**
 * A suspect as isolation needs it: how to mark its row as running alone, how to run it to its settled end,
 * and how to give it back.
 */
import { isolate } from '../lease/isolate.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import type { HeldJob } from './held.js';
import type { InHand } from './in-hand.js';
import type { Suspect } from './isolation.js';
import type { Runs } from './runs.js';

export interface SuspectGround {
  readonly engine: Executor;
  readonly names: Names;
  readonly hand: InHand;
  readonly runs: Runs;
  readonly trouble: (what: string, error: unknown) => void;
}

export function suspectOf(ground: SuspectGround, held: HeldJob): Suspect {
  const { runs } = ground;
  return {
    held,
    mark: (alone) => mark(ground, held, alone),
    // Not over before it is settled: until then the mark would make it pay for what comes next.
    run: async () => {
      const over = held.left();
      await runs.work([held]);
      await over;
    },
    handBack: () => runs.handBack([held]),
  };
}

async function mark(
  { engine, names, hand, runs, trouble }: SuspectGround,
  held: HeldJob,
  alone: boolean,
): Promise<boolean> {
  try {
    const marked = await isolate(engine, names, held.workerId, held, alone);
    if (!marked && alone) {
      hand.lose(held);
      runs.handBack([held]);
    }
    return marked;
  } catch (error) {
    trouble(`isolating job ${held.id}`, error);
    if (alone) runs.handBack([held]);
    return false;
  }
}
