/**
 * What the demo prints. Events go by as lines with the time since the start. On a terminal a few
 * lines stay below them and are drawn again; elsewhere there are only lines. Colour on a terminal
 * only, and not where NO_COLOR is set.
 */
const STYLES = { bold: '1', dim: '2', bad: '31', good: '32', worry: '33' } as const;
export type Style = keyof typeof STYLES;
export type Span = string | readonly [text: string, style: Style];

const UP = '\u001b[A';
const CLEAR_BELOW = '\u001b[J';
const WIDTH = 80;

export class Screen {
  /** Whether lines can stay in place. */
  readonly live: boolean;
  /** Gets every event too. */
  onSay: ((text: string) => void) | null = null;
  readonly #out: NodeJS.WriteStream;
  readonly #colour: boolean;
  readonly #startedAt = performance.now();
  #below: readonly (readonly Span[])[] = [];
  #drawn = 0;

  constructor(out: NodeJS.WriteStream, env: NodeJS.ProcessEnv) {
    this.#out = out;
    this.live = out.isTTY === true && env.TERM !== 'dumb';
    this.#colour = this.live && !env.NO_COLOR;
  }

  /** An event, with its time. */
  readonly say = (...spans: Span[]): void => {
    this.onSay?.(spans.map((span) => (typeof span === 'string' ? span : span[0])).join(''));
    this.figures(...spans);
  };

  /** What comes by again and again, with its time. */
  figures(...spans: Span[]): void {
    const seconds = ((performance.now() - this.#startedAt) / 1000).toFixed(1);
    this.print([`${seconds} s`.padStart(8), 'dim'], '  ', ...spans);
  }

  /** A line as it is. */
  print(...spans: Span[]): void {
    this.#out.write(`${this.#erase()}${this.#text(spans)}\n${this.#draw()}`);
  }

  /** What stays below; nothing where nothing can stay. */
  keep(lines: readonly (readonly Span[])[]): void {
    if (!this.live) return;
    const erased = this.#erase();
    this.#below = lines;
    this.#out.write(erased + this.#draw());
  }

  #erase(): string {
    if (this.#drawn === 0) return '';
    return `\r${UP.repeat(this.#drawn - 1)}${CLEAR_BELOW}`;
  }

  #draw(): string {
    this.#drawn = this.#below.length;
    return this.#below.map((line) => this.#text(this.#cut(line))).join('\n');
  }

  /** A line that wraps could not be drawn over. */
  #cut(spans: readonly Span[]): Span[] {
    let left = (this.#out.columns || WIDTH) - 1;
    return spans.map((span) => {
      const [text, style] = typeof span === 'string' ? [span] : span;
      const fits = text.slice(0, left);
      left -= fits.length;
      return style ? [fits, style] : fits;
    });
  }

  #text(spans: readonly Span[]): string {
    return spans
      .map((span) => {
        if (typeof span === 'string') return span;
        const [text, style] = span;
        return this.#colour && text !== '' ? `\u001b[${STYLES[style]}m${text}\u001b[0m` : text;
      })
      .join('');
  }
}
