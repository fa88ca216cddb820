/**
 * The order of test files: the longest first, so that no core waits for one at the end. Those that are known to be
 * long are named here; of the others Vitest knows how long they took last time, or how large they are.
 */
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Seconds on two idle cores. */
const LONG: Readonly<Record<string, number>> = {
  'test/torture/smoke.test.ts': 35,
  'test/demo.test.ts': 55,
  'test/start.test.ts': 35,
  'test/testing-docs.test.ts': 30,
  'test/crash/freeze.test.ts': 32,
  'test/crash/drain.test.ts': 32,
  'test/crash/liveness.test.ts': 27,
  'test/crash/poison.test.ts': 25,
  'test/back-again.test.ts': 28,
  'test/simulation/schedules.test.ts': 20,
  'test/package.test.ts': 20,
  'test/cli-doctor.test.ts': 20,
};

const secondsOf = ({ moduleId }: TestSpecification) =>
  Object.entries(LONG).find(([file]) => moduleId.endsWith(file))?.[1] ?? 0;

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return sorted.toSorted((a, b) => secondsOf(b) - secondsOf(a));
  }
}
