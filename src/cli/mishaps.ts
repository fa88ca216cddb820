/**
 * What went wrong with jobs, for the terminal of `holdfast work`: a line for a failure or a dead letter,
 * and where to ask. No text of the error, which may hold what a payload held. A type that fails often
 * gets one line a second, with the count of those that were left out.
 */
import type { WorkerEvent } from '../index.js';

const EVERY_MS = 1_000;

export class Mishaps {
  readonly #say: (line: string) => void;
  readonly #saidAt = new Map<string, { at: number; more: number }>();

  constructor(say: (line: string) => void) {
    this.#say = say;
  }

  record(event: WorkerEvent, now = performance.now()): void {
    if (event.kind !== 'failed' && event.kind !== 'dead_letter') return;
    const what = `${event.kind} ${event.type}`;
    const last = this.#saidAt.get(what);
    if (last && now - last.at < EVERY_MS) {
      last.more++;
      return;
    }
    this.#saidAt.set(what, { at: now, more: 0 });
    const outcome =
      event.kind === 'failed' ? 'failed and will be tried again' : 'is a dead letter now';
    const more = last && last.more > 0 ? ` (and ${last.more} more of this type since)` : '';
    this.#say(`${event.type} ${event.id} ${outcome}${more}: holdfast explain ${event.id}`);
  }
}
