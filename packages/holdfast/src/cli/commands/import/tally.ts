/** What an import found and did, in as many rows as there are names, states and reasons; and how it is printed. */
import { many } from '../../../inspect/reading/words.js';
import type { Output } from '../../print/output.js';
import type { TableColumn } from '../../print/table.js';
import { Keyless } from './keys.js';

interface Line {
  readonly from: string;
  readonly state: string;
  /** The type that it becomes; null: it stays. */
  readonly becomes: string | null;
  readonly why: string | null;
  jobs: number;
}

/** A queue for each tenant would make a report of millions of lines. */
const MAX_LINES = 2_000;

const columns: readonly TableColumn<Line>[] = [
  { title: 'FROM', of: ({ from }) => from },
  { title: 'STATE', of: ({ state }) => state },
  { title: 'JOBS', of: ({ jobs }) => jobs, align: 'right' },
  { title: 'BECOMES', of: ({ becomes }) => becomes },
  {
    title: 'WHY',
    of: ({ why }) => why,
    style: ({ becomes }) => (becomes === null ? 'worry' : null),
  },
];

export class Tally {
  readonly #lines = new Map<string, Line>();
  readonly #warnings = new Map<string, { text: string; noun: string; times: number }>();
  /** Of the jobs that move, with --key. */
  readonly keyless = new Keyless();
  moved = 0;
  stayed = 0;
  /** Brought by an earlier import. */
  known = 0;
  folded = 0;
  /** They are here, and could not be taken out there. */
  both = 0;
  schedules = 0;

  add(line: Omit<Line, 'jobs'>, jobs = 1): void {
    let { from } = line;
    if (this.#lines.size >= MAX_LINES && !this.#lines.has(keyOf(line))) from = '(others)';
    const key = keyOf({ ...line, from });
    const known = this.#lines.get(key);
    if (known) known.jobs += jobs;
    else this.#lines.set(key, { ...line, from, jobs });
    if (line.becomes === null) this.stayed += jobs;
  }

  warn(text: string, noun = 'job', times = 1): void {
    // A job and a schedule can lose the same: each is counted by itself.
    const key = `${noun} ${text}`;
    const { times: before } = this.#warnings.get(key) ?? { times: 0 };
    this.#warnings.set(key, { text, noun, times: before + times });
  }

  async print(out: Output): Promise<void> {
    const lines = [...this.#lines.values()];
    if (lines.length > 0) await out.rows(lines, columns);
    for (const line of this.keyless.lines()) out.note(`Warning: ${line}.`);
    for (const { text, noun, times } of this.#warnings.values())
      out.note(`Warning: ${many(times, noun)}: ${text}.`);
  }
}

const keyOf = (line: Omit<Line, 'jobs'>) =>
  JSON.stringify([line.from, line.state, line.becomes, line.why]);
