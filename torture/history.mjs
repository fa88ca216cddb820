// What a process did and what it learnt, one JSON line for each fact, written before and after every operation.
//
// A line is in the kernel when `record` returns, so a SIGKILL in the next instruction cannot hide it. Times are
// milliseconds of the machine's monotonic clock, which all processes share, whatever their wall clocks say.
import { closeSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';

/** A file in the folder of a run: from now on jobs that mean to take their process along return instead. */
export const CALM = 'calm';

export const monotonicMs = () => Number(process.hrtime.bigint()) / 1e6;

/**
 * @param {string} folder
 * @param {string} name of the process: a file of its own
 */
export function openHistory(folder, name) {
  const file = openSync(join(folder, `${name}.jsonl`), 'a');
  return {
    /**
     * @param {string} op what is done: `enqueue`, `run`, `once`, `settle`, `fault` …
     * @param {'invoke' | 'ok' | 'fail' | 'unknown' | 'note'} phase
     * @param {object} [facts]
     */
    record(op, phase, facts) {
      const t = Math.round(monotonicMs() * 1000) / 1000;
      writeSync(
        file,
        `${JSON.stringify({ t, who: name, pid: process.pid, op, phase, ...facts })}\n`,
      );
    },
    close: () => closeSync(file),
  };
}

/** All lines of all processes, oldest first. A line that a crash cut in two says so. */
export function readHistories(folder) {
  const lines = [];
  for (const name of readdirSync(folder).filter((file) => file.endsWith('.jsonl'))) {
    for (const line of readFileSync(join(folder, name), 'utf8').split('\n')) {
      if (line === '') continue;
      try {
        lines.push(JSON.parse(line));
      } catch {
        lines.push({ t: 0, who: name, op: 'torn', phase: 'note', line });
      }
    }
  }
  return lines.sort((a, b) => a.t - b.t);
}
