/**
 * An attempt that meets a fault, by the real statements: real claims under real generations, a real takeover,
 * a real recovery. What happened is told to a story, step by step.
 */
// A test may have replaced the global ones.
import { clearTimeout, setTimeout } from 'node:timers';
import type { LeasedJob } from 'holdfast/internal';
import type { AttemptEnd, TestWorker } from '../test-worker.js';
import type { Trial } from '../trial.js';
import { Crash, Cut, type Fault, Interrupt, type Where } from './fault.js';
import { Lockstep, PATIENCE_MS } from './lockstep.js';
import type { Step } from './steps.js';

export interface Struck {
  /** Null: it crashed. */
  readonly end: AttemptEnd | null;
  /** Where the fault struck; null: the attempt never came there. */
  readonly step: Step | null;
}

interface Scene {
  readonly trial: Trial;
  readonly first: TestWorker;
  readonly held: LeasedJob;
  /** Is told what happened, in sentences. */
  readonly tell: (sentence: string) => Promise<void>;
}

/** The rule by which a single attempt is struck, where no step was chosen. */
export function usualPlace(fault: Fault, held: LeasedJob): Where {
  switch (fault) {
    case 'crash':
      // In a transaction that completes the job, the completion counts with its COMMIT.
      return ({ kind }) => kind === 'completion' || (kind === 'commit' && held.settling);
    case 'commit_unanswered':
    case 'commit_lost':
      return ({ kind }) => kind === 'commit' || kind === 'completion';
    case 'marker_lost':
      return ({ kind }) => kind === 'marker';
    default:
      return (_, index) => index === 0;
  }
}

export async function strike(fault: Fault, scene: Scene, where: Where): Promise<Struck> {
  await scene.tell('Worker 1 claimed the job and started the handler.');
  switch (fault) {
    case 'crash':
      return crash(scene, where);
    case 'lease_lost':
      return loseLease(scene, where);
    case 'delivered_twice':
      return deliverTwice(scene);
    default:
      return cut(scene, where, fault === 'commit_unanswered');
  }
}

async function crash({ trial, first, held, tell }: Scene, where: Where): Promise<Struck> {
  const watcher = new Crash(where);
  await first.register(trial.names);
  const ended = await Promise.race([
    trial.run(first, held, watcher).then((end) => ({ end, step: null })),
    watcher.crashed.then((step) => ({ end: null, step })),
  ]);
  if (ended.step) {
    await tell(`Worker 1 crashed ${ended.step.moment}.`);
    await trial.vanish(first, trial.worker());
    await tell('Another worker noticed, and the job went back to the queue.');
  } else await first.leave(trial.names, false);
  return ended;
}

async function loseLease({ trial, first, held, tell }: Scene, where: Where): Promise<Struck> {
  const takeOver = async (step: Step) => {
    await tell(`Worker 1 stood still ${step.moment}, until its lease ran out.`);
    const second = trial.worker();
    const taken = await second.claimJob(trial.names, held.id);
    if (taken) {
      await tell('Worker 2 took the job over and started the handler.');
      const { result } = await trial.run(second, taken);
      await tell(`Worker 2 ended: the job is ${result}.`);
    }
    await first.renew(held);
    await tell('Worker 1 woke up and went on; its signal is aborted.');
  };
  let takenOver: Promise<void> = Promise.resolve();
  const watcher = new Interrupt(where, (step) => {
    takenOver = trial.aside(() => takeOver(step));
    return within(takenOver);
  });
  const end = await trial.run(first, held, watcher);
  await takenOver;
  await tell(`Worker 1 ended: for it the job is ${end.result}.`);
  return { end, step: watcher.struck };
}

/** The other worker may wait for locks of the first: then both go on at once. */
export async function within(work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const patience = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, PATIENCE_MS);
  });
  await Promise.race([work, patience]);
  clearTimeout(timer);
}

async function deliverTwice({ trial, first, held, tell }: Scene): Promise<Struck> {
  const second = trial.worker();
  const taken = await second.claimJob(trial.names, held.id);
  const { owner, stale } = Lockstep.pair();
  await tell(
    'Its lease ran out unnoticed; worker 2 claimed the job too, and both ran the handler at once.',
  );
  const runs = [
    trial.run(first, held, stale).finally(() => stale.over()),
    taken ? trial.run(second, taken, owner).finally(() => owner.over()) : null,
  ] as const;
  const [end, other] = await Promise.all(runs);
  await tell(
    `Worker 1 ended: for it the job is ${end.result}. Worker 2: the job is ${other?.result}.`,
  );
  return { end, step: stale.steps[0] ?? null };
}

async function cut({ trial, first, held, tell }: Scene, where: Where, committed: boolean) {
  const watcher = new Cut(where, committed);
  const end = await trial.run(first, held, watcher);
  const { struck } = watcher;
  if (struck) {
    await tell(
      committed
        ? `The database carried out ${struck.name}, and the connection broke before the answer arrived.`
        : `The connection broke at ${struck.name}, and the database did not carry it out.`,
    );
  }
  await tell(`Worker 1 ended the attempt: the job is ${end.result}.`);
  return { end, step: struck };
}
