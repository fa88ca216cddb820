// The book of a run: every figure on a line of its own, tables and raw values beside, kept as JSON,
// and at the end of a whole run turned into `docs/benchmarks.md` with its charts.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { PARTS } from '../arguments.mjs';
import { writeDocs } from './markdown.mjs';

const RESULTS = fileURLToPath(new URL('../results/', import.meta.url));
/**
 * For trying the harness itself: all numbers of jobs times this, and the times of a whole run.
 * Never set for figures that are told.
 */
const SCALE = Number(process.env.HOLDFAST_BENCH_SCALE ?? 1);

const print = (text) => process.stdout.write(`${text}\n`);

export class Book {
  #run;
  #parts = {};
  #short = 0;
  #began = new Date();

  constructor(run) {
    this.#run = run;
    mkdirSync(`${RESULTS}parts`, { recursive: true });
  }

  open() {
    const { machine, versions, systems, quick } = this.#run;
    for (const [name, value] of Object.entries(machine.words)) print(`${name}: ${value}`);
    for (const [name, version] of Object.entries(versions)) {
      print(`${name} ${version}`);
      for (const [configuration, { says, source }] of Object.entries(systems[name].configurations))
        print(`  ${configuration}: ${says} (${source})`);
    }
    if (!this.#run.redis && this.#run.shared)
      print(
        `bullmq-redis: SKIPPED, ${quick ? 'not in a quick run' : 'there is no redis-server on the PATH'}`,
      );
    if (quick) print('A quick run: small numbers and single repetitions; its figures are noisy.');
  }

  /** What a part is given to tell its findings with. */
  part(name) {
    const page = { name, figures: [], facts: [], tables: [], charts: [], raw: {} };
    this.#parts[name] = page;
    const { quick } = this.#run;
    const figure = (label, value, goal, holds) => {
      if (!holds) this.#short += 1;
      page.figures.push({ label, value, goal, holds });
      print(`${label} ${value} (goal ${goal}) ${holds ? 'ok' : 'short'}`);
    };
    return {
      figure,
      fact: (label, value) => {
        page.facts.push({ label, value });
        print(`${label} ${value}`);
      },
      table: (table) => page.tables.push(table),
      chart: (chart) => page.charts.push(chart),
      raw: (key, value) => {
        page.raw[key] = value;
      },
      /** A part that broke is short, and the others still run. */
      failed: (error) => {
        console.error(error);
        figure(`${name}.ran`, `no: ${error.message.split('\n')[0]}`, 'yes', false);
      },
      size: (full, small) => Math.ceil((quick ? small : full) * SCALE),
      span: (fullMs, smallMs) => (quick ? smallMs : fullMs * Math.min(1, Math.max(SCALE, 0.1))),
      found: this.#parts,
    };
  }

  closePart(name, seconds) {
    const page = this.#parts[name];
    const { machine, versions, quick } = this.#run;
    Object.assign(page, { seconds, quick, at: new Date().toISOString(), machine, versions });
    // Only what may be told stays as the part's last result.
    if (SCALE === 1 && PARTS.includes(name) && !this.#run.narrowed)
      writeFileSync(`${RESULTS}parts/${name}.json`, JSON.stringify(page, null, 1));
    console.error(`${name} took ${seconds.toFixed(0)} s`);
  }

  close(seconds) {
    const { quick, all, writeDocs: asked, machine, versions } = this.#run;
    const stamp = this.#began.toISOString().replaceAll(':', '-').slice(0, 19);
    const file = `${RESULTS}${stamp}${quick ? '-quick' : ''}.json`;
    const whole = { at: this.#began, seconds, quick, machine, versions, parts: this.#parts };
    writeFileSync(file, JSON.stringify(whole, null, 1));
    console.error(`\nraw results: ${file}; the run took ${seconds.toFixed(0)} s`);
    if (SCALE === 1 && (asked || (all && !quick))) writeDocs(this.#pages(), this.#run.systems);
    if (this.#short > 0) print(`${this.#short} figures are short of their goal.`);
    return this.#short > 0 ? 1 : 0;
  }

  /** The last result of every part, of this run or of an earlier one. */
  #pages() {
    const kept = readdirSync(`${RESULTS}parts`).map((file) =>
      JSON.parse(readFileSync(`${RESULTS}parts/${file}`, 'utf8')),
    );
    return PARTS.map((name) => kept.find((page) => page.name === name)).filter(Boolean);
  }
}
