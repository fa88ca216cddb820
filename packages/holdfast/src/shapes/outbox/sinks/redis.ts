/**
 * Events to Redis streams. Redis 7 has no dedupe of its own, so a script sets a marker with the message id and appends the
 * entry in one step: while the marker lives, a second copy is dropped. Marker and stream are in one slot of a cluster.
 */
import { DeadLetter } from '../../../job/errors/errors.js';
import { checkInteger } from '../../../job/job.js';
import { type Duration, durationMs } from '../../../job/options/duration.js';
import { checkKnown, type Known } from '../../../job/options/known-options.js';
import { headersOf, type Message } from '../message.js';
import {
  type Accepted,
  checkClient,
  type PublishOptions,
  type Sink,
  Unavailable,
} from '../sink.js';

/** What the sink calls of a client, a pool or a cluster of `redis`. */
export interface RedisLike {
  /** Runs a script. */
  eval(script: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
}

/**
 * Options of `redisSink()`.
 * @example redisSink(redis, { stream: ({ type }) => `events:${type}`, dedupe: '1h', maxLength: 1_000_000 });
 */
export interface RedisSinkOptions {
  /** The stream of an event. Default `events`. */
  readonly stream?: string | ((message: Message) => string);
  /** How long a second copy of a message is dropped. Default 10 minutes, up to 30 days. */
  readonly dedupe?: Duration;
  /** The stream keeps about so many entries. Default: all. */
  readonly maxLength?: number;
}

const OPTIONS = { stream: true, dedupe: true, maxLength: true } as const satisfies Known<
  Required<RedisSinkOptions>
>;

const SCRIPT = `
local known = redis.call('GET', KEYS[2])
if known then return {known, 1} end
local add = {'XADD', KEYS[1]}
if ARGV[2] ~= '0' then
  add[#add + 1] = 'MAXLEN'
  add[#add + 1] = '~'
  add[#add + 1] = ARGV[2]
end
add[#add + 1] = '*'
for n = 3, #ARGV do add[#add + 1] = ARGV[n] end
local id = redis.call(unpack(add))
redis.call('SET', KEYS[2], id, 'PX', ARGV[1])
return {id, 0}`;

/** The script's `unpack` takes some thousands; events have some dozens. */
const MAX_DEDUPE_MS = 30 * 86_400_000;

/**
 * A sink that appends to Redis streams.
 * @example
 * // redis is await createClient({ url: 'redis://localhost:6379' }).connect()
 * relay(worker, events, redisSink(redis, { stream: 'shop:events' }));
 */
export function redisSink(client: RedisLike, options: RedisSinkOptions = {}): Sink {
  checkClient(client, 'eval', 'redisSink()', 'a client of redis');
  checkKnown(options, OPTIONS, 'redisSink()', 'No sink was made.');
  const { stream = 'events', dedupe = '10m', maxLength } = options;
  const dedupeMs = durationMs(dedupe, 'dedupe', { min: 1_000, max: MAX_DEDUPE_MS });
  const length =
    maxLength === undefined ? 0 : checkInteger(maxLength, 'maxLength', 1, 1_000_000_000);
  const streamOf = typeof stream === 'function' ? stream : () => stream;
  return {
    name: 'redis',
    ...(typeof stream === 'function' && { target: stream }),
    async publish(message: Message, _: PublishOptions): Promise<Accepted> {
      const name = streamOf(message);
      const fields = { ...headersOf(message), data: JSON.stringify(message.data ?? null) };
      const values = Object.entries(fields).flat();
      const call = {
        keys: [name, markerOf(name, message.messageId)],
        arguments: [String(dedupeMs), String(length), ...values],
      };
      try {
        const answer = await client.eval(SCRIPT, call);
        return { duplicate: Array.isArray(answer) && Number(answer[1]) === 1 };
      } catch (error) {
        throw judged(error as Error);
      }
    },
  };
}

/** A cluster hashes what stands in braces, or all of the name. */
function markerOf(stream: string, id: string): string {
  const tag = /\{([^}]+)\}/.exec(stream)?.[1] ?? stream;
  return `{${tag}}:holdfast:${id}`;
}

function judged(error: Error): Error {
  const { message } = error;
  if (/^WRONGTYPE/.test(message))
    return new Unavailable(message, { scope: 'target', cause: error });
  if (/string exceeds maximum allowed size|Protocol error: invalid bulk length/.test(message))
    return new DeadLetter(`Redis refused the event: ${message}`, { cause: error });
  return error;
}
