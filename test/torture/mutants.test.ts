/** Planted bugs are textual changes of the compiled product: one whose text is gone would plant nothing. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { MUTANTS } from '../../torture/mutants/list.mjs';

const BUILD = new URL('../../packages/holdfast/build/', import.meta.url);

test.each(MUTANTS)('$name: its texts are found', ({ patches }) => {
  for (const [file, replacements] of Object.entries(patches)) {
    const text = readFileSync(new URL(file, BUILD), 'utf8');
    for (const [from] of replacements) expect(text).toContain(from);
  }
});
