/**
 * Closes a test run with one plain line that counts what ran: `N passed, N failed, N skipped`. What was late and
 * passed when it was tried once more is named above it.
 */
import type { Reporter, TestModule } from 'vitest/node';

export class ClosingLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const count = { passed: 0, failed: 0, skipped: 0 };
    for (const module of modules) {
      let tests = 0;
      for (const test of module.children.allTests()) {
        tests++;
        const { state, errors = [] } = test.result();
        if (state === 'passed') count.passed++;
        else if (state === 'failed') count.failed++;
        else count.skipped++;
        const [why = ''] = errors[0]?.message.split('\n') ?? [];
        if (test.diagnostic()?.flaky) console.log(`LATE AT FIRST: ${test.fullName}: ${why}`);
        if (state === 'skipped') console.log(`SKIPPED: ${test.fullName}`);
      }
      // A file that could not be loaded has no tests to count, and is a failure all the same.
      if (tests === 0 || module.errors().length > 0) count.failed++;
    }
    count.failed += errors.length;
    const skipped = count.skipped > 0 ? `, ${count.skipped} skipped` : '';
    console.log(`\n${count.passed} passed, ${count.failed} failed${skipped}`);
  }
}
