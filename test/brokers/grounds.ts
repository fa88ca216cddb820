/** Each broker as the tests see it: started, with what it needs to take events, and read to the end. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { MAX_BYTES, openNats, openRabbit, openRedis } from './clients.mjs';
import {
  type Broker,
  type BrokerName,
  startKafkaMock,
  startNats,
  startRabbit,
  startRedis,
} from './servers.js';

export interface Got {
  readonly id: string;
  readonly key: string;
  readonly n: number;
  readonly fence: number;
}

export interface Ground {
  readonly name: BrokerName;
  /** How the title calls it. */
  readonly title: string;
  /** It drops second copies by itself. */
  readonly dedupes: boolean;
  /** It can be killed and come back with what it had. */
  readonly lasts: boolean;
  start(): Promise<Broker>;
  /** What the broker has, in its order; of Kafka, in that of each key. */
  read(port: number): Promise<Got[]>;
}

const got = (headers: Readonly<Record<string, unknown>>, text: string): Got => ({
  id: String(headers['holdfast-id']),
  key: String(headers['holdfast-key']),
  n: (JSON.parse(text) as { n: number }).n,
  fence: Number(headers['holdfast-fence']),
});

const nats: Ground = {
  name: 'nats',
  title: 'NATS JetStream',
  dedupes: true,
  lasts: true,
  async start() {
    const broker = await startNats();
    const { manager, close } = await openNats(broker.port);
    const stream = { name: 'EVENTS', subjects: ['events.>'], max_msg_size: MAX_BYTES };
    await (await manager()).streams.add(stream);
    await close();
    return broker;
  },
  async read(port) {
    const { jetstream, manager, close } = await openNats(port);
    const { state } = await (await manager()).streams.info('EVENTS');
    const all: Got[] = [];
    if (state.messages > 0) {
      const consumer = await jetstream.consumers.get('EVENTS');
      for await (const message of await consumer.consume({ max_messages: 1_000 })) {
        const facts = (message.headers?.keys() ?? []).map((name) => [
          name.toLowerCase(),
          message.headers?.get(name),
        ]);
        all.push(got(Object.fromEntries(facts), message.string()));
        if (message.seq === state.last_seq) break;
      }
    }
    await close();
    return all;
  },
};

const redis: Ground = {
  name: 'redis',
  title: 'Redis streams',
  dedupes: true,
  lasts: true,
  start: startRedis,
  async read(port) {
    const { client, close } = await openRedis(port);
    const entries = await client.xRange('events', '-', '+');
    await close();
    return (entries ?? []).map(({ message }) => got(message, message.data as string));
  },
};

const rabbitmq: Ground = {
  name: 'rabbitmq',
  title: 'RabbitMQ',
  dedupes: false,
  lasts: true,
  async start() {
    const broker = await startRabbit();
    const { connection, close } = openRabbit(broker.port);
    await connection.onConnect(30_000);
    await connection.exchangeDeclare({ exchange: 'events', type: 'topic', durable: true });
    await connection.queueDeclare({ queue: 'events', durable: true });
    const binding = { exchange: 'events', queue: 'events', routingKey: 'order.*' };
    await connection.queueBind(binding);
    await close();
    return broker;
  },
  async read(port) {
    const { connection, close } = openRabbit(port);
    const all: Got[] = [];
    for (;;) {
      const message = await connection.basicGet({ queue: 'events', noAck: true });
      if (!message) break;
      all.push(got(message.headers ?? {}, JSON.stringify(message.body)));
    }
    await close();
    return all;
  },
};

const run = promisify(execFile);

const kafka: Ground = {
  name: 'kafka',
  title: "Kafka (librdkafka's mock cluster)",
  dedupes: false,
  lasts: false,
  start: startKafkaMock,
  async read(port) {
    const args = ['-C', '-b', `127.0.0.1:${port}`, '-t', 'events', '-e', '-q', '-J'];
    const { stdout } = await run('kcat', args, { maxBuffer: 64 * 1024 * 1024 });
    return stdout
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as { headers: string[]; payload: string })
      .map(({ headers, payload }) => {
        const pairs = headers.flatMap((name, at) => (at % 2 ? [] : [[name, headers[at + 1]]]));
        return got(Object.fromEntries(pairs), payload);
      });
  },
};

export const GROUNDS = { nats, redis, rabbitmq, kafka };
