import type { JetStreamClient, JetStreamManager } from '@nats-io/jetstream';
import type { NatsConnection } from '@nats-io/transport-node';
import type { Sink } from 'holdfast/outbox';
import type { Producer } from 'kafkajs';
import type { Connection } from 'rabbitmq-client';
import type { RedisClientType } from 'redis';

interface Open {
  close(): Promise<unknown>;
}
export declare const MAX_BYTES: number;
export declare function openNats(port: number): Promise<
  Open & {
    readonly connection: NatsConnection;
    readonly jetstream: JetStreamClient;
    manager(): Promise<JetStreamManager>;
  }
>;
export declare function openRedis(
  port: number,
): Promise<Open & { readonly client: RedisClientType }>;
export declare function openRabbit(port: number): Open & { readonly connection: Connection };
export declare function openKafka(port: number): Promise<Open & { readonly producer: Producer }>;
export declare const SINKS: Readonly<
  Record<
    'nats' | 'redis' | 'rabbitmq' | 'kafka',
    (port: number) => Promise<Open & { readonly sink: Sink }>
  >
>;
