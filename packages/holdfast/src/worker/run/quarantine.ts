/**
 * Quarantine: a job that took its process along again and again runs alone. The claim has marked its row (`isolated`):
 * if the process dies now, nothing else can have been the cause, and the attempt counts. Nothing else starts, waiting jobs
 * are released, running handlers are waited for: after `PATIENCE_MS`, or beside a leaked handler, the job runs without the
 * mark. It also loses the mark after `ALONE_MS`, and at a stop. Afterwards the worker does other work for at least as long.
 */
import { CHECK_MS, type Time, Wait } from '../time.js';
import type { LeasedJob } from './leased-job.js';

const ALONE_MS = 30 * CHECK_MS;
const PATIENCE_MS = ALONE_MS / 6;

interface QuarantineDeps {
  readonly time: Time;
  readonly releaseWaiting: () => void;
  readonly resume: () => void;
  readonly leaks: { readonly total: number };
}

export interface IsolatedJob {
  readonly held: LeasedJob;
  readonly unmark: () => Promise<void>;
  readonly run: () => Promise<void>;
  readonly release: () => void;
}

export type Quarantine = ReturnType<typeof newQuarantine>;

export function newQuarantine({ time, releaseWaiting, resume, leaks }: QuarantineDeps) {
  let running = 0;
  let holds = false;
  let stopped = false;
  let readyAt = Number.NEGATIVE_INFINITY;
  const quiet = new Wait();
  const alone = new Wait();

  async function runWithin(job: IsolatedJob, aloneMs: number): Promise<void> {
    if (aloneMs === 0) await job.unmark();
    let ended = false;
    void job.run().then(() => {
      ended = true;
      alone.end();
    });
    await alone.atMost(aloneMs, time);
    // Other work begins beside it, this process is told to end, or it was lost with its mark in the row.
    if (aloneMs > 0 && (!ended || job.held.lost)) await job.unmark();
  }

  return {
    /** While it does, nothing else may be started or claimed. */
    get holds() {
      return holds;
    },
    /** From when on suspects may be claimed. */
    get readyAt() {
      return holds || stopped ? Number.POSITIVE_INFINITY : readyAt;
    },
    entered(): void {
      running++;
    },
    left(): void {
      running--;
      if (running === 0) quiet.end();
    },
    async runAlone(job: IsolatedJob): Promise<void> {
      if (holds || stopped) return job.release();
      holds = true;
      const from = time.now();
      releaseWaiting();
      const isQuiet = running === 0 || (await quiet.atMost(PATIENCE_MS, time));
      if (stopped || job.held.lost) job.release();
      else await runWithin(job, isQuiet && leaks.total === 0 ? ALONE_MS : 0);
      const now = time.now();
      readyAt = now + (now - from);
      holds = false;
      resume();
    },
    stop(): void {
      stopped = true;
      quiet.end();
      alone.end();
    },
  };
}
