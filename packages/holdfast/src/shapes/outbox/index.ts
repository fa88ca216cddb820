export type { AppendedEvent, EventLogLike } from './logged.js';
export {
  type EventOf,
  headersOf,
  type Message,
  type OutboxEvent,
  type StoredEvent,
} from './message.js';
export { type Outbox, type OutboxOptions, outbox } from './outbox.js';
export { type Relay, type RelayOptions, type RelayStats, relay } from './relay.js';
export type { ReplayEvents, Replayed } from './replay.js';
export {
  type Accepted,
  type PublishOptions,
  type Sink,
  Unavailable,
  type UnavailableOptions,
} from './sink.js';
