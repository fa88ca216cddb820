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
  'test/dashboard/lab.test.ts': 45,
  'test/product/demo.test.ts': 45,
  'test/lab/journeys.test.ts': 40,
  'test/torture/smoke.test.ts': 33,
  'test/dashboard/browser.test.ts': 32,
  'test/product/start.test.ts': 32,
  'test/crash/drain.test.ts': 30,
  'packages/embedded/src/start.test.ts': 30,
  'test/crash/freeze.test.ts': 29,
  'test/simulation/schedules.test.ts': 28,
  'test/crash/liveness.test.ts': 23,
  'test/claim/locks.test.ts': 22,
  'packages/testing/src/kit.test.ts': 20,
  'packages/testing/src/faults.test.ts': 20,
  'test/crash/poison.test.ts': 20,
  'test/claim/locked-rows.test.ts': 20,
  'test/product/package.test.ts': 20,
  'test/fleet/ownership.test.ts': 18,
  'test/crash/restart.test.ts': 18,
  'test/claim/idle.test.ts': 18,
  'test/cli/cli-work.test.ts': 17,
  'test/calm/poison.test.ts': 17,
  'test/cli/cli-doctor.test.ts': 16,
  'test/crash/spin.test.ts': 16,
  'packages/holdfast/src/fleet/liveness.test.ts': 16,
  'test/docs/testing-docs.test.ts': 16,
  'test/crash/stop.test.ts': 15,
  'test/fleet/crashes.test.ts': 15,
  'test/claim/back-again.test.ts': 15,
  'test/fleet/limits.test.ts': 14,
  'test/fleet/schedules.test.ts': 13,
  'test/product/bundle.test.ts': 13,
  'test/crash/kill.test.ts': 12,
  'test/crash/pool.test.ts': 12,
  'test/calm/deep-recovery.test.ts': 11,
  'test/inspect/inspect-counts.test.ts': 10,
  'test/fleet/split-views.test.ts': 10,
  'test/fleet/per-key.test.ts': 9,
  'test/fleet/hot-key.test.ts': 9,
  'test/fleet/scale.test.ts': 9,
  'test/calm/late-commit.test.ts': 9,
  'test/calm/frozen.test.ts': 9,
  'test/calm/idle-hands.test.ts': 8,
  'test/calm/delayed.test.ts': 7,
  'test/cli/cli-bulk.test.ts': 6,
  'packages/holdfast/src/postgres/database.test.ts': 6,
  'packages/holdfast/src/worker/lease/keeper-thread.test.ts': 6,
  'test/crash/fleet.test.ts': 6,
  'test/fleet/versions.test.ts': 6,
  'test/product/fuzz.test.ts': 5,
  'test/fleet/failing-keys.test.ts': 5,
};
/** Of a file that is not named. */
const SHORT = 3;

const WAITS =
  /test\/(calm|crash|fleet|torture)\/|test\/(demo|start|idle|locks|locked-rows)\.test\.ts$|src\/(embedded\/start|fleet\/liveness)\.test\.ts$/;

const known = ({ moduleId }: TestSpecification) =>
  Object.entries(LONG).find(([file]) => moduleId.endsWith(file))?.[1];
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
        shared.filter(({ moduleId }) => WAITS.test(moduleId)),
        shared.filter(({ moduleId }) => !WAITS.test(moduleId)),
      ),
    ];
  }
}
