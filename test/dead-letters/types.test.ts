/** What the compiler says of onDeadLetter; tsc checks this file with the others. */
import { expect, expectTypeOf, test } from 'vitest';
import {
  type CreateQueueOptions,
  type DeadJob,
  job,
  type QueueOptions,
} from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';

interface Charge {
  readonly cents: number;
}

const db = testDatabase();

test('a hook takes the payload of the jobs of which it tells', () => {
  const ofCharges = job<DeadJob<Charge>>('of_charges');
  const ofAny = job<DeadJob>('of_any');
  const ofMails = job<DeadJob<{ readonly to: string }>>('of_mails');
  const ofMore = job<DeadJob<Charge & { readonly currency: string }>>('of_more');
  const plain = job<Charge>('plain');
  const definition = job<Charge>('charge', { onDeadLetter: ofCharges });
  job<Charge>('charge', { onDeadLetter: ofAny });
  // @ts-expect-error: it reads another payload.
  job<Charge>('charge', { onDeadLetter: ofMails });
  // @ts-expect-error: it reads more than the payload has.
  job<Charge>('charge', { onDeadLetter: ofMore });
  // @ts-expect-error: it does not take what is told of a dead letter.
  job<Charge>('charge', { onDeadLetter: plain });
  // The hook does not say what the payload is.
  expectTypeOf(job('inferred', { onDeadLetter: ofAny }).item)
    .parameter(0)
    .toBeUnknown();
  expect(definition.onDeadLetter).toEqual({
    ...{ queue: 'inbox', type: 'of_charges', version: 1, priority: 2, maxAttempts: 5 },
  });
  expectTypeOf<QueueOptions['onDeadLetter']>().extract<null>().toBeNull();
  expectTypeOf<CreateQueueOptions['onDeadLetter']>().extract<null>().toBeNever();

  db.hf
    .worker()
    .handle(ofCharges, ({ payload }) => {
      expectTypeOf(payload.payload).toEqualTypeOf<Charge>();
      expectTypeOf(payload.outcome).toEqualTypeOf<'failed' | 'dead_letter' | 'vanished'>();
    })
    .handle(ofAny, ({ payload }) => expectTypeOf(payload.payload).toBeUnknown());
});
