/** The hook for a live lab, which only the demo passes: people kill, freeze and add processes from the page. Without it: 404. */
import { Refused } from '../guard/reply.js';

/** What can be done to one worker, named by its number. */
export const WORKER_ACTS = ['kill', 'freeze', 'cut', 'continue', 'drain'] as const;
/** What can be done to the fleet, or given to it to do. */
export const FLEET_ACTS = ['add', 'burst', 'hot-key', 'shards', 'poison'] as const;

/** What a visitor does in the lab. */
export type LabAct =
  | { readonly act: (typeof WORKER_ACTS)[number]; readonly worker: number }
  | { readonly act: (typeof FLEET_ACTS)[number] }
  | { readonly act: 'enqueue'; readonly key: string };

/** A worker of the lab. */
export interface LabWorker {
  readonly number: number;
  /** Under which it is registered; null: not yet. */
  readonly id: string | null;
  readonly condition: 'starting' | 'runs' | 'frozen' | 'cut off' | 'draining';
  /** Jobs in its name. */
  readonly held: number;
}

/** The lab at one moment. */
export interface LabState {
  readonly accepted: number;
  readonly done: number;
  readonly waiting: number;
  readonly deadLetters: number;
  readonly lost: number;
  readonly doubled: number;
  readonly outOfOrder: number;
  readonly perSecond: number;
  readonly workers: readonly LabWorker[];
  /** What happened lately, the newest last. */
  readonly events: readonly { readonly at: number; readonly text: string }[];
}

/** What drives the lab's pages. */
export interface LabHook {
  /** Null: it is starting. */
  state(): LabState | null;
  /** Resolves when it is done, with a sentence that says what was. Throws an Error that says why it was not. */
  act(act: LabAct): Promise<string>;
}

export function neededLab(lab: LabHook | undefined): LabHook {
  if (lab) return lab;
  throw new Refused(
    404,
    'There is no live lab here; npm start in the repository of Holdfast has one.',
  );
}

export function labAct(body: Readonly<Record<string, unknown>>): LabAct | null {
  const { act, worker, key } = body;
  if (act === 'enqueue') return typeof key === 'string' && key !== '' ? { act, key } : null;
  const ofFleet = FLEET_ACTS.find((one) => one === act);
  if (ofFleet) return { act: ofFleet };
  const ofWorker = WORKER_ACTS.find((one) => one === act);
  if (!ofWorker || !Number.isSafeInteger(worker)) return null;
  return { act: ofWorker, worker: worker as number };
}
