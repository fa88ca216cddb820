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
  'test/product/demo.test.ts': 55,
  'test/dashboard/browser.test.ts': 37,
  'test/torture/smoke.test.ts': 32,
  'test/crash/drain.test.ts': 26,
  'test/dashboard/lab.test.ts': 26,
  'packages/testing/src/faults.test.ts': 25,
  'test/cli/cli-doctor.test.ts': 23,
  'test/turns/turns-blocked.test.ts': 23,
  'test/crash/freeze.test.ts': 22,
  'test/product/start.test.ts': 20,
  'packages/embedded/src/start.test.ts': 19,
  'packages/holdfast/src/schema/evolve.test.ts': 19,
  'packages/testing/src/kit.test.ts': 18,
  'test/claim/back-again.test.ts': 18,
  'test/worker/connections.test.ts': 18,
  'test/crash/poison.test.ts': 18,
  'test/claim/hot.test.ts': 18,
  'test/limits/limits-permits.test.ts': 18,
  'test/product/package.test.ts': 18,
  'test/docs/examples.test.ts': 18,
  'test/calm/poison.test.ts': 17,
  'test/crash/one-recovers.test.ts': 17,
  'test/crash/stop.test.ts': 17,
  'test/claim/plans.test.ts': 17,
  'test/claim/states.test.ts': 17,
  'test/crash/restart.test.ts': 16,
  'test/claim/locks.test.ts': 16,
  'test/schedules/schedules-burst.test.ts': 16,
  'test/simulation/schedules.test.ts': 16,
  'test/crash/slow-start.test.ts': 15,
  'test/lab/journeys.test.ts': 15,
  'test/schema/upgrade.test.ts': 15,
  'test/worker/batches.test.ts': 14,
  'test/fleet/ownership.test.ts': 14,
  'test/claim/idle.test.ts': 14,
  'test/limits/limits-keys-worker.test.ts': 14,
  'test/claim/locked-rows.test.ts': 13,
  'test/worker/worker.test.ts': 13,
  'test/dead-letters/processes.test.ts': 12,
  'packages/holdfast/src/fleet/liveness.test.ts': 12,
  'test/cli/cli-work.test.ts': 12,
  'test/crash/liveness.test.ts': 11,
  'test/crash/spin.test.ts': 11,
  'test/fleet/limits.test.ts': 11,
  'test/fleet/scale.test.ts': 11,
  'test/operate/maintenance.test.ts': 11,
  'test/fleet/crashes.test.ts': 10,
  'test/calm/deep-recovery.test.ts': 9,
  'test/calm/frozen.test.ts': 9,
  'test/fleet/versions.test.ts': 9,
  'test/limits/limits-cost.test.ts': 9,
  'test/limits/limits-worker.test.ts': 9,
  'test/order/order-worker.test.ts': 9,
  'test/docs/testing-docs.test.ts': 9,
  'test/calm/late-commit.test.ts': 8,
  'test/crash/kill.test.ts': 8,
  'test/fleet/per-key.test.ts': 8,
  'test/inspect/inspect-counts.test.ts': 8,
  'test/schema/roles-queues.test.ts': 8,
  'test/schedules/schedules-worker.test.ts': 8,
  'test/product/bundle.test.ts': 7,
  'test/claim/deadlocks.test.ts': 7,
  'test/fleet/hot-key.test.ts': 7,
  'test/fleet/split-views.test.ts': 7,
  'test/order/order-plans.test.ts': 7,
  'test/turns/turns-worker.test.ts': 7,
  'test/operate/unique.test.ts': 7,
  'packages/holdfast/src/enqueue/adapters.test.ts': 6,
  'packages/holdfast/src/schedule/fields.test.ts': 6,
  'test/cli/cli-jobs.test.ts': 6,
  'test/cli/cli-top.test.ts': 6,
  'test/crash/pool.test.ts': 6,
  'test/worker/crossing.test.ts': 6,
  'test/shapes/outbox/outbox.test.ts': 7,
  'test/fleet/failing-keys.test.ts': 6,
  'test/product/fuzz.test.ts': 6,
  'test/claim/locked-queue.test.ts': 6,
  'packages/holdfast/src/fleet/ring.test.ts': 5,
  'apps/demo/src/events/news.test.ts': 5,
  'test/protocol/rules.test.ts': 5,
  'test/shapes/projections/builds.test.ts': 5,
  'test/shapes/projections/owners.test.ts': 5,
  'test/shapes/projections/commands.test.ts': 5,
  'packages/holdfast/src/schema/migrate.test.ts': 5,
  'packages/holdfast/src/worker/lease/keeper-thread.test.ts': 5,
  'test/operate/backpressure.test.ts': 5,
  'test/calm/crash-beside.test.ts': 5,
  'test/calm/delayed.test.ts': 5,
  'test/calm/idle-hands.test.ts': 5,
  'test/cli/cli-config.test.ts': 5,
  'test/worker/context.test.ts': 5,
  'test/crash/fleet.test.ts': 5,
  'test/fleet/schedules.test.ts': 5,
  'test/worker/outcomes.test.ts': 5,
  'test/worker/refused-settles.test.ts': 5,
  'test/operate/waiting.test.ts': 5,
  'test/calm/even-hands.test.ts': 4,
  'test/shapes/receive/receive.test.ts': 4,
  'test/shapes/webhooks/deliver.test.ts': 4,
  'test/shapes/webhooks/slow.test.ts': 4,
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
