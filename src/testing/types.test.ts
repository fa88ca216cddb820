/** What the compiler makes of the kit: payloads are checked, and nothing is `any`. */
import { expect, expectTypeOf, test } from 'vitest';
import * as z from 'zod';
import { type HandlerContext, job } from '../index.js';
import { expectEnqueued, makeJob, survivesFaults, type TestJobResult, testJob } from './index.js';

const receipt = job('send_receipt', {
  schema: z.object({
    order: z.object({ id: z.number(), lines: z.array(z.string()) }),
    at: z.string().transform((text) => new Date(text)),
  }),
});
const payload = { order: { id: 1, lines: ['a'] }, at: '2026-11-16' };

test('payloads and handlers have the types of the job', () => {
  const typed = () => {
    void testJob(
      receipt,
      ({ payload: read }) => expectTypeOf(read.at).toEqualTypeOf<Date>(),
      payload,
    );
    // @ts-expect-error the payload lacks `order`
    void testJob(receipt, () => undefined, { at: '2026-11-16' });
    // @ts-expect-error there is no such fault
    void testJob(receipt, () => undefined, payload, { fault: 'fire' });
    // @ts-expect-error there is no such state
    void makeJob('gone', receipt, payload);
    void survivesFaults(
      receipt,
      () => undefined,
      (run) => ({ ...payload, order: { id: run, lines: [] } }),
      {
        effect: () => 1,
      },
    );
    const wrong = (run: number) => run;
    // @ts-expect-error the function returns no payload
    void survivesFaults(receipt, () => undefined, wrong, { effect: () => 1 });
    // @ts-expect-error there is nothing to count
    void survivesFaults(receipt, () => undefined, payload, {});
    void expectEnqueued({ type: receipt, payload: { order: { id: 1 } } });
    void expectEnqueued({ type: 'send_receipt', payload: { anything: 1 } });
    // @ts-expect-error an id is a number
    void expectEnqueued({ type: receipt, payload: { order: { id: '1' } } });
  };
  expect(typed).toBeTypeOf('function');
});

test('nothing that is returned is any', () => {
  expectTypeOf<TestJobResult['error']>().toBeUnknown();
  expectTypeOf<TestJobResult['effects'][string]>().toBeUnknown();
  expectTypeOf<TestJobResult['enqueued'][number]['payload']>().toBeUnknown();
  expectTypeOf(testJob<{ a: 1 }, { b: 2 }>)
    .parameter(1)
    .toEqualTypeOf<(context: HandlerContext<{ b: 2 }>) => unknown>();
});
