/** A run that meets one fault in one of its turns. The turns after it are undisturbed. */
import type { LeasedJob } from 'holdfast/internal';
import { Crash, Cut, Interrupt, type Where } from '../faults/fault.js';
import type { Step, Watcher } from '../faults/steps.js';
import { within } from '../faults/strike.js';
import type { AttemptEnd, TestWorker } from '../test-worker.js';
import type { Trial } from '../trial.js';

export type RunFault = 'crash' | 'crash_after' | 'lease_lost' | 'commit_unanswered' | 'commit_lost';

interface Attempt {
  readonly trial: Trial;
  readonly by: TestWorker;
  readonly held: LeasedJob;
}

type Tell = (sentence: string) => Promise<void>;

const ENDS: Readonly<Record<string, string>> = {
  ...{ suspended: 'it waits', completed: 'it is completed', dead_letter: 'it is a dead letter' },
  ...{ retry: 'the turn failed', lost: 'for this worker it is lost', cancelled: 'it is cancelled' },
};

export class Strike {
  readonly #fault: RunFault;
  readonly #where: Where;
  readonly #tell: Tell;
  #watcher: (Watcher & { readonly struck: Step | null }) | null = null;
  /** The attempt that runs now. */
  #now: Attempt | null = null;
  #takenOver: Promise<void> = Promise.resolve();
  #turns = 0;

  constructor(fault: RunFault, index: number, tell: Tell) {
    this.#fault = fault;
    this.#where = (_, at) => at === index;
    this.#tell = tell;
  }

  get struck(): Step | null {
    return this.#watcher?.struck ?? null;
  }

  /** One turn; null: it crashed. Steps are counted over all turns. */
  async take(trial: Trial, by: TestWorker, held: LeasedJob): Promise<AttemptEnd | null> {
    const turn = `Turn ${++this.#turns}`;
    const was = this.struck;
    if (was) {
      const end = await trial.run(by, held);
      await this.#tell(`${turn}: ${endOf(end)}.`);
      return end;
    }
    this.#now = { trial, by, held };
    const end = await this.#strike(trial, by, held, turn);
    const told = this.#fault === 'crash' || this.#fault === 'crash_after';
    if (this.struck && end && !told) await this.#tell(`${turn} ended: ${endOf(end)}.`);
    return end;
  }

  async #strike(trial: Trial, by: TestWorker, held: LeasedJob, turn: string) {
    switch (this.#fault) {
      case 'crash':
      case 'crash_after':
        return this.#crash(trial, by, held, turn);
      case 'lease_lost': {
        this.#watcher ??= new Interrupt(this.#where, (step) => this.#interrupt(step, turn));
        const end = await trial.run(by, held, this.#watcher);
        await this.#takenOver;
        return end;
      }
      default:
        return this.#cut(trial, by, held, turn);
    }
  }

  async #crash(trial: Trial, by: TestWorker, held: LeasedJob, turn: string) {
    const isAfter = this.#fault === 'crash_after';
    this.#watcher ??= new Crash(this.#where, isAfter);
    const watcher = this.#watcher as Crash;
    await by.register(trial.names);
    const end = await Promise.race([
      trial.run(by, held, watcher),
      watcher.crashed.then(() => null),
    ]);
    const step = watcher.struck;
    if (end || !step) {
      await by.leave(trial.names, false);
      return end;
    }
    await this.#tell(
      `${turn}: the worker crashed ${isAfter ? `right after ${step.name}` : step.moment}.`,
    );
    await trial.vanish(by, trial.worker());
    await this.#tell('Another worker noticed, and the run went back to the queue.');
    return null;
  }

  #interrupt(step: Step, turn: string): Promise<void> {
    const { trial, by, held } = this.#now as Attempt;
    const takeOver = async () => {
      await this.#tell(`${turn}: worker 1 stood still ${step.moment}, until its lease ran out.`);
      const second = trial.worker();
      const taken = await second.claimJob(trial.names, held.id);
      if (taken) {
        const end = await trial.run(second, taken);
        await this.#tell(`Worker 2 took the run over and took a turn: ${endOf(end)}.`);
      }
      await by.renew(held);
      await this.#tell('Worker 1 woke up and went on; its signal is aborted.');
    };
    this.#takenOver = trial.aside(takeOver);
    return within(this.#takenOver);
  }

  async #cut(trial: Trial, by: TestWorker, held: LeasedJob, turn: string) {
    const committed = this.#fault === 'commit_unanswered';
    this.#watcher ??= new Cut(this.#where, committed);
    const end = await trial.run(by, held, this.#watcher);
    const step = this.struck;
    if (step)
      await this.#tell(
        committed
          ? `${turn}: the database carried out ${step.name}, and the connection broke before the answer arrived.`
          : `${turn}: the connection broke at ${step.name}, and the database did not carry it out.`,
      );
    return end;
  }
}

const endOf = ({ result }: AttemptEnd) => ENDS[result] ?? `it is ${result}`;
