/** The same question of many browsers, asked and written as text once: an answer serves all who ask while it is on its way, and for a moment after. */
const MAX_KEPT = 200;

interface Kept {
  /** When it is too old; undefined while it is on its way. */
  until?: number;
  readonly answer: Promise<string>;
}

export class SharedAnswers {
  readonly #kept = new Map<string, Kept>();

  /** What fails is not kept. */
  get(key: string, keptMs: number, ask: () => Promise<string>): Promise<string> {
    const found = this.#kept.get(key);
    if (found && (found.until === undefined || performance.now() < found.until))
      return found.answer;
    if (this.#kept.size >= MAX_KEPT) this.#kept.clear();
    const answer = ask();
    const kept: Kept = { answer };
    this.#kept.set(key, kept);
    answer.then(
      () => {
        kept.until = performance.now() + keptMs;
      },
      () => {
        if (this.#kept.get(key) === kept) this.#kept.delete(key);
      },
    );
    return answer;
  }

  /** After an act, who asks wants to see it. */
  clear(): void {
    this.#kept.clear();
  }
}
