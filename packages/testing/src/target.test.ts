import { expect, test } from 'vitest';
import { expectEnqueued, expectNotEnqueued } from './index.js';

test('an assertion on a database that no test has used is refused: it could not fail, or not pass', async () => {
  for (const wrong of [expectNotEnqueued({ type: 'a' }), expectEnqueued({ type: 'a' })])
    await expect(wrong).rejects.toThrow(/No hf was given.*useHoldfast\(hf\)/);
});
