/**
 * Progress on stderr: a bar that is drawn over itself on a terminal, a line now and then elsewhere. Where
 * the total is not known, it only counts.
 */
import { span } from '../../inspect/reading/words.js';
import type { Output } from './output.js';

const BAR = 24;
const DRAW_MS = 100;
const LINE_MS = 5_000;

export class Progress {
  readonly #out: Output;
  readonly #total: number | null;
  readonly #startedMs = performance.now();
  #drawnMs = 0;
  #drawn = false;

  constructor(out: Output, total: number | null) {
    this.#out = out;
    this.#total = total;
  }

  update(done: number): void {
    const { stderr } = this.#out.streams;
    const now = performance.now();
    const last = this.#drawnMs || (stderr.isTTY ? 0 : this.#startedMs);
    if (now - last < (stderr.isTTY ? DRAW_MS : LINE_MS)) return;
    this.#drawnMs = now;
    if (stderr.isTTY) {
      this.#drawn = true;
      stderr.write(`\r\u001b[K${this.#text(done, true)}`);
    } else {
      stderr.write(`${this.#text(done, false)}\n`);
    }
  }

  /** Removes the bar; what came of it is said elsewhere. */
  end(): void {
    if (this.#drawn) this.#out.streams.stderr.write('\r\u001b[K');
    this.#drawn = false;
  }

  #text(done: number, bar: boolean): string {
    const seconds = (performance.now() - this.#startedMs) / 1000;
    const perSecond = done / Math.max(seconds, 0.001);
    const speed = `${Math.round(perSecond).toLocaleString('en')}/s`;
    if (this.#total === null) return `${done.toLocaleString('en')} (${speed})`;
    const share = Math.min(1, this.#total === 0 ? 1 : done / this.#total);
    const full = Math.round(share * BAR);
    const drawing = bar ? `[${'#'.repeat(full)}${'-'.repeat(BAR - full)}] ` : '';
    const leftMs = perSecond > 0 ? ((this.#total - done) / perSecond) * 1000 : 0;
    const counts = `${done.toLocaleString('en')} of ${this.#total.toLocaleString('en')}`;
    return `${drawing}${counts} (${Math.floor(share * 100)} %), ${speed}, ${span(leftMs)} left`;
  }
}
