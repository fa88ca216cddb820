/**
 * What a command prints. Data goes to stdout: tables and lines for people, or with --json one JSON value a line. Notes,
 * questions and progress go to stderr. Texts of jobs lose their control characters: an error message must not steer the
 * terminal of its reader.
 */
import { plain, STYLES, type Style, type TableColumn, table } from './table.js';

export interface Streams {
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
  readonly env: NodeJS.ProcessEnv;
}

const escaped = (sign: string) =>
  [...Array(sign.length).keys()]
    .map((n) => `\\u${sign.charCodeAt(n).toString(16).padStart(4, '0')}`)
    .join('');

export class Output {
  readonly json: boolean;
  readonly #streams: Streams;

  constructor(streams: Streams, options: { json: boolean }) {
    this.#streams = streams;
    this.json = options.json;
  }

  /** One line of data. */
  line(text: string): Promise<void> {
    return this.#write(`${text}\n`);
  }

  /** One value of data, for programs. */
  value(value: unknown): Promise<void> {
    // JSON escapes most of what steers a terminal, but neither C1 controls nor what turns text round.
    const text = JSON.stringify(value).replace(/[\u007f-\u009f\p{Cf}]/gu, escaped);
    return this.#write(`${text}\n`);
  }

  /** Rows as a table, or one JSON value a row. */
  async rows<Row>(
    rows: readonly Row[],
    columns: readonly TableColumn<Row>[],
    options: { headless?: boolean } = {},
  ): Promise<void> {
    if (this.json) {
      for (const row of rows) await this.value(row);
      return;
    }
    const lines = this.tableLines(rows, columns);
    for (const line of options.headless ? lines.slice(1) : lines) await this.line(line);
  }

  /** What is known of one thing, a line for each fact. */
  async facts(facts: Readonly<Record<string, string | number | null>>, width = 16): Promise<void> {
    for (const [name, value] of Object.entries(facts))
      if (value !== null)
        await this.line(`${this.paint(name.padEnd(width), 'dim')} ${plain(String(value))}`);
  }

  /** JSON with a heading. */
  async part(heading: string, value: unknown): Promise<void> {
    await this.line(`\n${heading}`);
    await this.line(JSON.stringify(value, null, 2));
  }

  tableLines<Row>(rows: readonly Row[], columns: readonly TableColumn<Row>[]): string[] {
    const { stdout } = this.#streams;
    const width = stdout.isTTY ? (stdout.columns ?? 80) : Number.POSITIVE_INFINITY;
    return table(rows, columns, width, (text, style) => this.paint(text, style));
  }

  /** A word for the person at the terminal. */
  note(text: string): void {
    this.#streams.stderr.write(`${text}\n`);
  }

  /** Colour for stdout. */
  paint(text: string, style: Style): string {
    const { stdout, env } = this.#streams;
    const plain = !stdout.isTTY || env.NO_COLOR || env.TERM === 'dumb';
    return plain ? text : `\u001b[${STYLES[style]}m${text}\u001b[0m`;
  }

  get streams(): Streams {
    return this.#streams;
  }

  /** Waits while the reader is slower than we are, so that a long list does not pile up in memory. */
  async #write(text: string): Promise<void> {
    const { stdout } = this.#streams;
    if (stdout.write(text)) return;
    await new Promise<void>((resolve) => stdout.once('drain', resolve));
  }
}
