/** Planted bugs are textual changes of the compiled product: one whose text is gone would plant nothing. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { MUTANTS } from '../../torture/mutants/list.mjs';

test.each(MUTANTS)('$name: its texts are found', ({ patches }) => {
  for (const [file, replacements] of Object.entries(patches)) {
    const text = readFileSync(new URL(`../../dist/${file}`, import.meta.url), 'utf8');
    for (const [from] of replacements) expect(text).toContain(from);
  }
});
