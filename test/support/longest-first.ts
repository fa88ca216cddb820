/**
 * The order of test files: the longest first, so that no core waits for one at the end. Those that are known to be
 * long are named here; of the others Vitest knows how long they took last time, or how large they are.
 *
 * Files that need a process of their own come before all others: between files that share one, each of them would
 * end it, and the next would load everything again. Files that mostly wait for processes are spread evenly among
 * those that compute, so that the cores are busy all the time and never with too much.
 */
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Seconds on two idle cores, in a run of all files. */
const LONG: Readonly<Record<string, number>> = {
  'test/crash/fleet-wide.test.ts': 58,
  'test/demo.test.ts': 55,
  'test/dashboard/browser.test.ts': 37,
  'test/torture/smoke.test.ts': 32,
  'test/crash/drain.test.ts': 26,
  'test/dashboard/lab.test.ts': 26,
  'src/testing/faults.test.ts': 25,
  'test/cli-doctor.test.ts': 23,
  'test/turns-blocked.test.ts': 23,
  'test/crash/freeze.test.ts': 22,
  'test/start.test.ts': 20,
  'src/embedded/start.test.ts': 19,
  'src/schema/evolve.test.ts': 19,
  'src/testing/kit.test.ts': 18,
  'test/back-again.test.ts': 18,
  'test/connections.test.ts': 18,
  'test/crash/poison.test.ts': 18,
  'test/hot.test.ts': 18,
  'test/limits-permits.test.ts': 18,
  'test/package.test.ts': 18,
  'test/calm/poison.test.ts': 17,
  'test/crash/one-recovers.test.ts': 17,
  'test/crash/stop.test.ts': 17,
  'test/plans.test.ts': 17,
  'test/states.test.ts': 17,
  'test/crash/restart.test.ts': 16,
  'test/locks.test.ts': 16,
  'test/schedules-burst.test.ts': 16,
  'test/simulation/schedules.test.ts': 16,
  'test/crash/slow-start.test.ts': 15,
  'test/lab/journeys.test.ts': 15,
  'test/upgrade.test.ts': 15,
  'test/batches.test.ts': 14,
  'test/examples.test.ts': 14,
  'test/fleet/ownership.test.ts': 14,
  'test/idle.test.ts': 14,
  'test/limits-keys-worker.test.ts': 14,
  'test/locked-rows.test.ts': 13,
  'test/worker.test.ts': 13,
  'src/fleet/liveness.test.ts': 12,
  'test/cli-work.test.ts': 12,
  'test/crash/liveness.test.ts': 11,
  'test/crash/spin.test.ts': 11,
  'test/fleet/limits.test.ts': 11,
  'test/fleet/scale.test.ts': 11,
  'test/maintenance.test.ts': 11,
  'test/fleet/crashes.test.ts': 10,
  'test/calm/deep-recovery.test.ts': 9,
  'test/calm/frozen.test.ts': 9,
  'test/fleet/versions.test.ts': 9,
  'test/limits-cost.test.ts': 9,
  'test/limits-worker.test.ts': 9,
  'test/order-worker.test.ts': 9,
  'test/testing-docs.test.ts': 9,
  'test/calm/late-commit.test.ts': 8,
  'test/crash/kill.test.ts': 8,
  'test/fleet/per-key.test.ts': 8,
  'test/inspect-counts.test.ts': 8,
  'test/roles-queues.test.ts': 8,
  'test/schedules-worker.test.ts': 8,
  'test/bundle.test.ts': 7,
  'test/deadlocks.test.ts': 7,
  'test/fleet/hot-key.test.ts': 7,
  'test/fleet/split-views.test.ts': 7,
  'test/order-plans.test.ts': 7,
  'test/turns-worker.test.ts': 7,
  'test/unique.test.ts': 7,
  'src/enqueue/adapters.test.ts': 6,
  'src/schedule/fields.test.ts': 6,
  'test/cli-jobs.test.ts': 6,
  'test/cli-top.test.ts': 6,
  'test/crash/pool.test.ts': 6,
  'test/crossing.test.ts': 6,
  'test/fleet/failing-keys.test.ts': 6,
  'test/fuzz.test.ts': 6,
  'test/locked-queue.test.ts': 6,
  'src/fleet/ring.test.ts': 5,
  'src/schema/migrate.test.ts': 5,
  'src/worker/lease/keeper-thread.test.ts': 5,
  'test/backpressure.test.ts': 5,
  'test/calm/crash-beside.test.ts': 5,
  'test/calm/delayed.test.ts': 5,
  'test/calm/idle-hands.test.ts': 5,
  'test/cli-config.test.ts': 5,
  'test/context.test.ts': 5,
  'test/crash/fleet.test.ts': 5,
  'test/fleet/schedules.test.ts': 5,
  'test/outcomes.test.ts': 5,
  'test/refused-settles.test.ts': 5,
  'test/waiting.test.ts': 5,
  'test/calm/even-hands.test.ts': 4,
  'test/calm/oldest-first.test.ts': 4,
  'test/crash/memory.test.ts': 4,
  'test/fleet/unique.test.ts': 4,
  'test/crash/start.test.ts': 3,
  'test/fleet/fair.test.ts': 3,
  'test/calm/disk.test.ts': 2,
  'test/calm/watched-first.test.ts': 2,
};
/** Of a file that is not named; a new test of processes may be long, and must not be the last to start. */
const SHORT = 1;
const UNKNOWN_WAIT = 20;

const WAITS =
  /test\/(calm|crash|fleet|torture\/smoke)\b|test\/(demo|start|idle|locks|locked-rows)\.test\.ts$|src\/(embedded\/start|fleet\/liveness)\.test\.ts$/;

const waits = ({ moduleId }: TestSpecification) => WAITS.test(moduleId);
const known = (file: TestSpecification) =>
  Object.entries(LONG).find(([name]) => file.moduleId.endsWith(name))?.[1] ??
  (waits(file) ? UNKNOWN_WAIT : undefined);
const secondsOf = (file: TestSpecification) => known(file) ?? SHORT;

/** Merges lists so that of each, at any time, the same part of its seconds has begun. */
function spread(...lists: TestSpecification[][]): TestSpecification[] {
  const placed = lists.flatMap((files) => {
    const total = files.reduce((sum, file) => sum + secondsOf(file), 0);
    let before = 0;
    return files.map((file) => {
      const place = before / total;
      before += secondsOf(file);
      return { file, place };
    });
  });
  return placed.toSorted((a, b) => a.place - b.place).map(({ file }) => file);
}

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = (await super.sort(files)).toSorted((a, b) => (known(b) ?? 0) - (known(a) ?? 0));
    const shared = sorted.filter(({ project }) => !project.config.isolate);
    return [
      ...sorted.filter(({ project }) => project.config.isolate),
      ...spread(
        shared.filter(waits),
        shared.filter((file) => !waits(file)),
      ),
    ];
  }
}
