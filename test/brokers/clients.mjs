// The clients of the brokers as a user connects them, and the sinks on them. The relay of relay.mjs runs on the built
// package; specs run on the sources.
import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import { connect, headers } from '@nats-io/transport-node';
import { kafkaSink } from 'holdfast/outbox/kafka';
import { natsSink } from 'holdfast/outbox/nats';
import { rabbitSink } from 'holdfast/outbox/rabbitmq';
import { redisSink } from 'holdfast/outbox/redis';
import { Kafka, logLevel } from 'kafkajs';
import { Connection } from 'rabbitmq-client';
import { createClient } from 'redis';

export const MAX_BYTES = 100_000;
const quiet = () => undefined;

export async function openNats(port) {
  const options = { maxReconnectAttempts: -1, reconnectTimeWait: 100, waitOnFirstConnect: true };
  const connection = await connect({ servers: `127.0.0.1:${port}`, ...options });
  return {
    connection,
    jetstream: jetstream(connection),
    manager: () => jetstreamManager(connection),
    close: () => connection.close(),
  };
}

export async function openRedis(port) {
  const client = createClient({ socket: { host: '127.0.0.1', port, reconnectStrategy: 100 } });
  client.on('error', quiet);
  await client.connect();
  return { client, close: async () => client.destroy() };
}

export function openRabbit(port) {
  const url = `amqp://guest:guest@127.0.0.1:${port}`;
  const connection = new Connection({ url, retryLow: 100, retryHigh: 500, acquireTimeout: 5_000 });
  connection.on('error', quiet);
  return { connection, close: () => connection.close() };
}

export async function openKafka(port) {
  const kafka = new Kafka({
    clientId: 'holdfast',
    brokers: [`127.0.0.1:${port}`],
    logLevel: logLevel.NOTHING,
    requestTimeout: 2_000,
    retry: { retries: 0 },
  });
  const producer = kafka.producer({ allowAutoTopicCreation: true, retry: { retries: 0 } });
  await producer.connect();
  return { producer, close: () => producer.disconnect() };
}

/** By the name of a broker, a sink on a connection of its own. */
export const SINKS = {
  async nats(port) {
    const { connection, close } = await openNats(port);
    return { sink: natsSink(connection, { headers }), close };
  },
  async redis(port) {
    const { client, close } = await openRedis(port);
    return { sink: redisSink(client), close };
  },
  async rabbitmq(port) {
    const { connection, close } = openRabbit(port);
    const sink = rabbitSink(connection, { exchange: 'events', maxBytes: MAX_BYTES });
    return { sink, close: () => sink.close().then(close) };
  },
  async kafka(port) {
    const { producer, close } = await openKafka(port);
    return { sink: kafkaSink(producer), close };
  },
};
