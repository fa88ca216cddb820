/** What the compiler makes of the kit: payloads are checked, and nothing is `any`. */
import { expect, expectTypeOf, test } from 'vitest';
import * as z from 'zod';
import {
  type HandlerContext,
  type Holdfast,
  type JobDefinition,
  job,
  type RunHistory,
  workflow,
} from '../../holdfast/src/index.js';
import {
  expectEnqueued,
  makeJob,
  replayHistory,
  survivesFaults,
  type TestJobResult,
  testJob,
  testWorkflow,
} from './index.js';

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

test('a payload is checked against the job, and does not widen it', () => {
  const send = job<{ orderId: number; note?: string }>('send');
  const kind = job<{ k: 'a' | 'b' } | null>('kind');
  const anything = job('anything');
  const typed = (hf: Holdfast, ctx: HandlerContext<unknown>, given: unknown, body: object) => {
    void hf.enqueue(send, { orderId: 1 });
    void hf.enqueue(kind, { k: 'a' });
    void hf.enqueue(kind, null);
    void hf.enqueue(anything, given);
    void hf.enqueue(anything, null);
    void hf.enqueue(send, { orderId: 1 }, { priority: 4 });
    // @ts-expect-error there are four
    void hf.enqueue(send, { orderId: 1 }, { priority: 9 });
    // @ts-expect-error there are four
    job('wrong', { priority: 0 });
    // @ts-expect-error null is no order
    void hf.enqueue(send, null);
    // @ts-expect-error nobody has looked at it
    void hf.enqueue(send, given);
    // @ts-expect-error nobody has looked into it
    void hf.enqueue(send, body);
    // @ts-expect-error the id may be missing
    void hf.enqueue(send, body as { orderId?: number });
    // @ts-expect-error there is no such field
    void hf.enqueue(send, { orderId: 1, nite: 'x' });
    // @ts-expect-error there is no such kind
    void hf.enqueue(kind, { k: 'c' });
    // @ts-expect-error the same of a child
    void ctx.enqueue(send, given);
    // @ts-expect-error the same of a schedule
    void hf.schedule('s', { every: '1h', job: send, payload: given });
    // @ts-expect-error the same of a change
    void hf.update('id', { payload: given }, { job: send });
    // @ts-expect-error the same in a test
    void testJob(send, () => undefined, given);
  };
  const generic = <Input>(hf: Holdfast, any: JobDefinition<Input, unknown>, payload: Input) =>
    hf.enqueue(any, payload);
  expect([typed, generic]).toHaveLength(2);
});

test('nothing that is returned is any', () => {
  expectTypeOf<TestJobResult['result']>().toBeUnknown();
  expectTypeOf<TestJobResult['error']>().toBeUnknown();
  expectTypeOf<TestJobResult['effects'][string]>().toBeUnknown();
  expectTypeOf<TestJobResult['enqueued'][number]['payload']>().toBeUnknown();
  expectTypeOf(testJob<{ a: 1 }, { b: 2 }, unknown>)
    .parameter(1)
    .toEqualTypeOf<(context: HandlerContext<{ b: 2 }>) => unknown>();
});

test('bodies, signals and results of workflows have the types of the workflow', () => {
  const checkout = workflow<{ id: number }, { approved: { by: string } }, { paid: boolean }>(
    'checkout',
  );
  const body = async () => ({ paid: true });
  const order = { id: 1 };
  const typed = async (history: RunHistory) => {
    const { result } = await testWorkflow(checkout, body, order, {
      signals: [{ name: 'approved', value: { by: 'kim' }, after: '1d' }],
    });
    expectTypeOf(result).toEqualTypeOf<{ paid: boolean } | null>();
    void testWorkflow(
      checkout,
      async (flow, input) => {
        expectTypeOf(input.id).toEqualTypeOf<number>();
        const yes = await flow.wait('approval', 'approved');
        return { paid: yes.by !== '' };
      },
      order,
    ).signal('approved', { by: 'kim' });
    // @ts-expect-error there is no such signal
    void testWorkflow(checkout, body, order, { signals: [{ name: 'refused' }] });
    // @ts-expect-error the signal carries who approved
    void testWorkflow(checkout, body, order).signal('approved', { by: 1 });
    // @ts-expect-error the input lacks `id`
    void testWorkflow(checkout, body, {});
    // @ts-expect-error the body returns something else
    void testWorkflow(checkout, async () => 'paid', order);
    void survivesFaults(
      checkout,
      async (flow) => ({ paid: (await flow.step('charge', () => true)) === true }),
      (run) => ({ id: run }),
      { effect: () => ({ charges: 1 }) },
    );
    void replayHistory(checkout, { 1: body }, history);
  };
  expect(typed).toBeTypeOf('function');
});
