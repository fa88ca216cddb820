/**
 * Which jobs of a claim run one after the other. The claim returns the jobs of a key together, in its order;
 * neighbours of one key form a run. Each job without order is a run of its own.
 */
import type { ClaimBatch } from '../claim/claim-reader.js';
import type { LeasedJob } from './leased-job.js';

/** Marks the last job of a run if more of its key may stand behind it. */
export function runsOf(
  { run: longest, stop }: Pick<ClaimBatch, 'run' | 'stop'>,
  jobs: readonly LeasedJob[],
): LeasedJob[][] {
  if (longest === undefined) return jobs.map((job) => [job]);
  const runs: LeasedJob[][] = [];
  for (const job of jobs) {
    const run = runs.at(-1);
    if (run?.[0]?.row.partitionKey === job.row.partitionKey) run.push(job);
    else runs.push([job]);
  }
  for (const run of runs) {
    const last = run.at(-1) as LeasedJob;
    const cutShort = last.row.partitionKey === stop?.key;
    if (run.length === longest || cutShort || cameAlone(last)) last.hasMore = true;
  }
  return runs;
}

/** One that failed or crashed before is claimed without what stands behind it. */
const cameAlone = ({ row }: LeasedJob) => row.attempts > 1 || row.crashes > 0;
