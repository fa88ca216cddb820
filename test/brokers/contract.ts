/** What holds for every broker: outages, lost answers and frozen relays lose nothing, spend nothing and keep the order. */
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { type Outbox, outbox, relay, type Sink } from 'holdfast/outbox';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { testDatabase } from '../support/database.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';
import { SINKS } from './clients.mjs';
import type { Got, Ground } from './grounds.js';
import { type Broker, isInstalled, startWire, watchOver } from './servers.js';

const SCRIPT = fileURLToPath(new URL('./relay.mjs', import.meta.url));

export interface Events {
  'order.placed': { n: number; pad?: string };
  'invoice.sent': { n: number };
}

interface Said {
  readonly kind: string;
  readonly key: string;
  readonly gone: boolean;
  readonly duplicate: boolean;
}

/** As a consumer keeps them that dedupes by id: the first copy of each. */
function firsts(all: readonly Got[]): Got[] {
  const kept = new Map<string, Got>();
  for (const one of all) if (!kept.has(one.id)) kept.set(one.id, one);
  return [...kept.values()];
}

const ofKey = (all: readonly Got[], key: string) =>
  all.filter((one) => one.key === key).map(({ n }) => n);

export const upTo = (count: number) => Array.from({ length: count }, (_, n) => n);

export function contract(
  ground: Ground,
  more: (on: {
    readonly db: ReturnType<typeof testDatabase>;
    broker(): Broker;
    relaying: Relaying;
    newOutbox: NewOutbox;
  }) => void = () => {},
) {
  // Counted as skipped, and said loudly.
  describe.skipIf(!isInstalled(ground.name))(ground.title, () => {
    const db = testDatabase();
    const start = testWorkers();
    let broker: Broker;
    let outboxes = 0;
    beforeAll(async () => {
      broker = await ground.start();
    });
    afterAll(() => broker?.stop());

    const newOutbox: NewOutbox = async (options = {}) => {
      const events = outbox<Events>(db.hf, { queue: `outbox_${++outboxes}`, ...options });
      await events.create();
      return events;
    };
    const relaying: Relaying = async (
      events,
      { port = broker.port, options = {}, around = (sink: Sink) => sink } = {},
    ) => {
      const { sink, close } = await SINKS[ground.name](port);
      onTestFinished(async () => void (await close()));
      let made!: ReturnType<typeof relay>;
      const times = {
        poll: '100ms',
        lease: '5s',
        heartbeat: '500ms',
        ttl: '5s',
        maintenance: '300ms',
      } as const;
      const { worker } = start(
        db.hf,
        (one) => {
          made = relay(one, events, around(sink), { maxPause: '200ms', ...options });
          return one;
        },
        { concurrency: 100, ...times },
      );
      return { relay: made, worker };
    };

    const publish = (events: Outbox<Events>, keys: readonly string[], from: number, to: number) =>
      events.publish(
        upTo(to)
          .slice(from)
          .flatMap((n) => keys.map((key) => ({ type: 'order.placed' as const, key, data: { n } }))),
      );

    /** All are published; each in one attempt that counts. */
    async function published(events: Outbox<Events>, count: number) {
      const text = `SELECT count(*)::int AS n, coalesce(max(attempts), 0)::int AS attempts FROM holdfast.${events.queue}_archive`;
      await until(
        `${count} events are published`,
        async () => (await db.rows<{ n: number }>(text))[0]?.n === count,
        { timeoutMs: 120_000 },
      );
      expect(await db.rows(text)).toEqual([{ n: count, attempts: 1 }]);
      expect(await db.rows(`SELECT id FROM holdfast.${events.queue}`)).toEqual([]);
    }

    /** Nothing is lost, and a consumer that dedupes sees each key in order. */
    async function inOrder(prefix: string, keys: readonly string[], each: number): Promise<Got[]> {
      const all = (await ground.read(broker.port)).filter(({ key }) => key.startsWith(prefix));
      const kept = firsts(all);
      for (const key of keys) expect(ofKey(kept, key)).toEqual(upTo(each));
      expect(kept).toHaveLength(keys.length * each);
      if (ground.dedupes) expect(all).toHaveLength(kept.length);
      return all;
    }

    test('takes a backlog of many keys in the order of each', async () => {
      const events = await newOutbox();
      const keys = upTo(40).map((n) => `backlog:${n}`);
      await publish(events, keys, 0, 25);
      const { relay } = await relaying(events);
      await published(events, 1_000);
      const all = await inOrder('backlog:', keys, 25);
      expect(all).toHaveLength(1_000);
      expect(relay.stats()).toMatchObject({ published: 1_000, refused: 0, faults: 0 });
    });

    // An hour of an outage at 600 times its speed: 6 s, and the waits of a relay in proportion.
    test(`that is ${ground.lasts ? 'killed' : 'frozen'} for a scaled hour under load loses nothing and spends nothing`, async () => {
      const events = await newOutbox();
      const keys = upTo(50).map((n) => `outage:${n}`);
      const options = { ackTimeout: '1s', maxWait: '1500ms' } as const;
      const { relay, worker } = await relaying(events, { options });
      await publish(events, keys, 0, 5);
      if (ground.lasts) await broker.kill();
      else broker.signal('SIGSTOP');
      const downAt = performance.now();
      let n = 5;
      while (performance.now() - downAt < 6_000) {
        if (n < 30) await publish(events, keys, n, ++n);
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
      await until('the relay knows', () => relay.stats().downMs !== null);
      if (ground.lasts) await broker.start();
      else broker.signal('SIGCONT');
      await publish(events, keys, n, 35);
      await published(events, 50 * 35);
      await inOrder('outage:', keys, 35);
      expect(worker.stats).toMatchObject({ failed: 0, dead_letter: 0, lost: 0 });
      // Fifty keys for six seconds: what was put off was put off seldom.
      expect(worker.stats.snoozed).toBeLessThan(300);
    });

    test.skipIf(!ground.lasts)(
      'whose answers are lost gets one copy of each event, or copies with one id',
      async () => {
        const wire = await startWire(broker.port);
        onTestFinished(() => wire.stop());
        const events = await newOutbox();
        const keys = upTo(20).map((n) => `wire:${n}`);
        const options = { ackTimeout: '1s' } as const;
        const { relay, worker } = await relaying(events, { port: wire.port, options });
        await publish(events, keys, 0, 10);
        for (let n = 10; n < 40; n += 10) {
          await until('some are published', () => relay.stats().published > (n - 10) * 20);
          wire.mute();
          await publish(events, keys, n, n + 10);
          const before = relay.stats().faults;
          await until('answers are missed', () => relay.stats().faults > before);
          wire.cut();
        }
        await published(events, 800);
        await inOrder('wire:', keys, 40);
        expect(worker.stats).toMatchObject({ failed: 0, dead_letter: 0 });
      },
    );

    test('does not let a relay that was frozen past its lease turn the order round', async () => {
      const events = await newOutbox();
      const keys = upTo(10).map((n) => `late:${n}`);
      await publish(events, keys, 0, 10);
      const zombie = startRelay({
        url: db.url,
        queue: events.queue,
        broker: ground.name,
        port: broker.port,
        how: 'late',
      });
      await until('it holds an event of each key', () => zombie.count('held') === keys.length);
      zombie.child.kill('SIGSTOP');
      await relaying(events);
      await published(events, 100);
      zombie.child.send('go');
      zombie.child.kill('SIGCONT');
      await until('it has sent what it held', () => zombie.count('sent') === keys.length);
      const all = await inOrder('late:', keys, 10);
      if (ground.dedupes)
        return expect(zombie.said.filter((one) => one.duplicate)).toHaveLength(10);
      // The second copies say by their fence that they are the older ones.
      for (const key of keys) {
        const copies = all.filter((one) => one.key === key && one.n === 0);
        expect(copies.map(({ fence }) => fence)).toEqual([2, 1]);
      }
    });

    test('is sent nothing by a relay that wakes with events that others have published', async () => {
      const events = await newOutbox();
      const keys = upTo(10).map((n) => `woken:${n}`);
      await publish(events, keys, 0, 3);
      const zombie = startRelay({
        url: db.url,
        queue: events.queue,
        broker: ground.name,
        port: broker.port,
        how: 'down',
      });
      await until('it asks whether the sink is back', () => zombie.count('asked') > 3);
      zombie.child.kill('SIGSTOP');
      await relaying(events);
      await published(events, 30);
      const known = zombie.said.length;
      zombie.child.send('go');
      zombie.child.kill('SIGCONT');
      const { id } = await events.publish({
        type: 'order.placed',
        key: 'woken:last',
        data: { n: 0 },
      });
      await until(
        'its last event is published',
        async () => (await db.hf.job(id))?.status === 'completed',
      );
      const late = zombie.said
        .slice(known)
        .filter((one) => one.kind === 'asked' && keys.includes(one.key));
      expect(late).toEqual([]);
    });

    more({ db, broker: () => broker, relaying, newOutbox });
  });
}

export type NewOutbox = (options?: { refused?: 'hold' | 'free' }) => Promise<Outbox<Events>>;
export type Relaying = (
  events: Outbox<Events>,
  how?: {
    readonly port?: number;
    readonly options?: Parameters<typeof relay>[3];
    readonly around?: (sink: Sink) => Sink;
  },
) => Promise<{
  readonly relay: ReturnType<typeof relay>;
  readonly worker: ReturnType<ReturnType<typeof testWorkers>>['worker'];
}>;

function startRelay(config: object) {
  const child = fork(SCRIPT, [JSON.stringify(config)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const said: Said[] = [];
  child.on('message', (message) => void said.push(message as Said));
  const unwatch = watchOver(child.pid as number);
  child.once('exit', unwatch);
  onTestFinished(async () => {
    const gone = new Promise((resolve) => child.once('exit', resolve));
    if (child.exitCode !== null || !child.kill('SIGKILL')) return;
    await gone;
  });
  return { child, said, count: (kind: string) => said.filter((one) => one.kind === kind).length };
}
