/** Near misses: what a mistyped word was probably meant to be. */

/** Insertions, deletions, replacements and swaps of neighbours between two words. */
function distance(a: string, b: string): number {
  let [older, old]: [number[], number[]] = [[], Array.from({ length: b.length + 1 }, (_, n) => n)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let best = Math.min((old[j] as number) + 1, (row[j - 1] as number) + 1);
      best = Math.min(best, (old[j - 1] as number) + (same ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        best = Math.min(best, (older[j - 2] as number) + 1);
      }
      row.push(best);
    }
    [older, old] = [old, row];
  }
  return old[b.length] as number;
}

/** ` Did you mean "x"?`, or nothing when no candidate is near. */
export function nearest(word: string, candidates: readonly string[]): string {
  const close = candidates
    .map((candidate) => ({
      candidate,
      far: candidate.startsWith(word) && word.length > 1 ? 1 : distance(word, candidate),
    }))
    .filter(({ candidate, far }) => far <= Math.max(1, Math.floor(candidate.length / 3)))
    .sort((a, b) => a.far - b.far);
  return close[0] ? ` Did you mean "${close[0].candidate}"?` : '';
}
