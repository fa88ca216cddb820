/** The module in an application of Nest, on a real Postgres. Decorators are called as TypeScript calls them. */
import 'reflect-metadata';
import { Injectable, Module, Scope } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { type BatchJob, type HandlerContext, type Holdfast, job } from 'holdfast';
import { expect, onTestFinished, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.js';
import { quietLogger } from '../../../test/support/logger.js';
import { until } from '../../../test/support/until.js';
import { gate } from '../../../test/support/workers.js';
import { Handle, HandleMany, HOLDFAST, HoldfastModule, InjectHoldfast } from './index.js';

const db = testDatabase();
const receipt = job<{ orderId: number }>('send_receipt');
const mails = job<{ to: string }>('mails');
type Receipt = HandlerContext<{ orderId: number }>;
type Mails = readonly BatchJob<{ to: string }>[];
type Class = new (...args: never[]) => object;

const here = () => ({
  connectionString: db.url,
  logger: quietLogger,
});

const mark = (on: Class, name: string, decorate: ReturnType<typeof Handle>) =>
  decorate(on.prototype, name, Object.getOwnPropertyDescriptor(on.prototype, name) as never);

async function app(holdfastModule: object, ...providers: Class[]) {
  class App {}
  Module({ imports: [holdfastModule as never], providers })(App);
  const made = await NestFactory.createApplicationContext(App, {
    ...{ logger: false, abortOnError: false },
  });
  onTestFinished(() => made.close());
  return made;
}

/** A service, and a provider with it and the client; both are injected. */
function receipts() {
  class Mailer {
    readonly sent: number[] = [];
  }
  Injectable()(Mailer);
  class Receipts {
    readonly opened = gate();
    readonly begun = gate();
    readonly mailer: Mailer;
    readonly hf: Holdfast;
    constructor(mailer: Mailer, hf: Holdfast) {
      this.mailer = mailer;
      this.hf = hf;
    }
    async send({ payload }: Receipt) {
      this.begun.open();
      await this.opened.opened;
      this.mailer.sent.push(payload.orderId);
    }
  }
  Injectable()(Receipts);
  Reflect.defineMetadata('design:paramtypes', [Mailer, Object], Receipts);
  InjectHoldfast()(Receipts, undefined, 1);
  mark(Receipts, 'send', Handle(receipt));
  return { Mailer, Receipts };
}

test('a method handles jobs that its own client enqueued, and has ended when the application has', async () => {
  const { Mailer, Receipts } = receipts();
  const made = await app(HoldfastModule.forRoot({ holdfast: here() }), Mailer, Receipts);
  const provider = made.get(Receipts);
  const { id } = await provider.hf.enqueue(receipt, { orderId: 7 });
  await provider.begun.opened;
  const closed = made.close();
  await until('the worker drains', async () =>
    (await db.hf.workers()).some(({ status }) => status === 'draining'),
  );
  provider.opened.open();
  await closed;
  expect(made.get(Mailer).sent).toEqual([7]);
  expect((await db.hf.job(id))?.status).toBe('completed');
  await expect(provider.hf.enqueue(receipt, { orderId: 8 })).rejects.toMatchObject({
    code: 'CLOSED',
  });
});

test('with worker: false the client is there, and nothing is handled', async () => {
  const { Mailer, Receipts } = receipts();
  const options = { holdfast: here(), worker: false } as const;
  const made = await app(HoldfastModule.forRoot(options), Mailer, Receipts);
  const { id } = await made.get<Holdfast>(HOLDFAST).enqueue(receipt, { orderId: 7 });
  expect((await db.hf.workers()).filter(({ status }) => status === 'alive')).toEqual([]);
  expect(await db.hf.cancel([id])).toEqual([id]);
});

test('a method of a base class handles batches; options come from another provider', async () => {
  class Settings {
    readonly size = 2;
  }
  Injectable()(Settings);
  class SettingsModule {}
  Module({ providers: [Settings], exports: [Settings] })(SettingsModule);
  const batches: string[][] = [];
  class Sender {
    async send(jobs: Mails) {
      batches.push(jobs.map(({ payload }) => payload.to));
    }
  }
  class Mailing extends Sender {}
  Injectable()(Mailing);
  mark(Sender, 'send', HandleMany(mails, { max: 2 }));
  const ids = await db.hf.enqueueMany([mails.item({ to: 'a' }), mails.item({ to: 'b' })]);
  const events: string[] = [];
  const asked = HoldfastModule.forRootAsync({
    imports: [SettingsModule],
    inject: [Settings],
    useFactory: ({ size }: Settings) => ({
      ...{ holdfast: here(), migrate: true },
      worker: { concurrency: size, onEvent: ({ kind }) => events.push(kind) },
    }),
  });
  await app(asked, Mailing);
  for (const { id } of ids)
    await until('it is completed', async () => (await db.hf.job(id))?.status === 'completed');
  expect(batches).toEqual([['a', 'b']]);
  expect(events).toContain('started');
});

test('two methods for one type are refused by their names, also where no worker runs', async () => {
  const { Mailer, Receipts } = receipts();
  class Copies {
    send() {}
  }
  Injectable()(Copies);
  mark(Copies, 'send', Handle(receipt));
  const options = { holdfast: here(), worker: false } as const;
  await expect(app(HoldfastModule.forRoot(options), Mailer, Receipts, Copies)).rejects.toThrow(
    'Receipts.send and Copies.send both handle "send_receipt". The worker was not started.',
  );
});

test('a provider of a request cannot handle jobs, and says so', async () => {
  class Anew {
    send() {}
  }
  Injectable({ scope: Scope.REQUEST })(Anew);
  mark(Anew, 'send', Handle(receipt));
  await expect(app(HoldfastModule.forRoot({ holdfast: here() }), Anew)).rejects.toThrow(
    /Anew\.send handles jobs, and Anew is made anew for each request/,
  );
});

test('a worker that was asked for and has no handlers stops the start, as a wrong option does', async () => {
  const options = { holdfast: here(), worker: {} };
  await expect(app(HoldfastModule.forRoot(options))).rejects.toMatchObject({
    code: 'HANDLER_MISSING',
  });
  expect(() => HoldfastModule.forRoot({ wroker: false } as never)).toThrow(
    /no option "wroker"\. Did you mean "worker"\? Nothing was started\./,
  );
  expect(() => HoldfastModule.forRoot({ worker: { handleSignals: true } as never })).toThrow(
    /enableShutdownHooks/,
  );
});

test('the compiler holds a method to the result that its job declares', () => {
  const typed = job<{ orderId: number }, { sent: boolean }>('typed');
  type Jobs = readonly BatchJob<{ orderId: number }, { sent: boolean }>[];
  const method = <Method>(value: Method): TypedPropertyDescriptor<Method> => ({ value });
  const mistyped = method(() => ({ snet: true }));
  const sent = method(async () => ({ sent: true }));
  const nothing = method(() => undefined);
  const settled = method((jobs: Jobs) => jobs.map((one) => one.done({ sent: true })));
  const wrong = [
    // @ts-expect-error another result
    () => Handle(typed)({}, 'send', mistyped),
    // @ts-expect-error no job of the batch is settled
    () => HandleMany(typed, {})({}, 'send', nothing),
  ];
  const right = [
    () => Handle(typed)({}, 'send', sent),
    () => HandleMany(typed, {})({}, 'send', settled),
    () => HandleMany(mails, {})({}, 'send', nothing),
  ];
  expect([wrong.length, right.length]).toEqual([2, 3]);
});
