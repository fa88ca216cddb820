/** From a job of another queue to one of ours: checked before anything is written, with the reason if it cannot be. */
import type { Imported } from '../../../enqueue/imported.js';
import { HoldfastError } from '../../../job/errors/errors.js';
import { MAX_BYTES, storable } from '../../../job/errors/failure.js';
import { encodeHeaders } from '../../../job/headers.js';
import { bucketOf, checkKey, checkType } from '../../../job/key.js';
import { MAX_DELAY_MS } from '../../../job/options/duration.js';
import { encodePayload } from '../../../job/payload.js';
import { uuidv7 } from '../../../job/uuid.js';
import { UsageError } from '../../failures.js';
import type { SourceJob } from './sources/source.js';

/** The key, or what the payload lacks for it; `lacks` is empty where there is a key. */
export type KeyOf = (payload: unknown) => { readonly key: string | null; readonly lacks: string };

const MAX_ATTEMPTS = 10_000;

export interface Target {
  /** `pg-boss`, for the import key. */
  readonly kind: string;
  readonly types: (names: readonly string[]) => string;
  /** From `--key`; null: the source decides. */
  readonly key: KeyOf | null;
  /** The queue has groups. */
  readonly groups: boolean;
  readonly maxPayloadBytes: number;
}

export class Stays extends Error {}

/** Types by --map and --prefix. */
export function typesOf(
  maps: readonly string[] | undefined,
  prefix = '',
): (names: readonly string[]) => string {
  const known = new Map(
    (maps ?? []).map((map) => {
      const at = map.lastIndexOf('=');
      if (at < 1) throw new UsageError(`--map takes OLD=NEW, not "${map}". Nothing was moved.`);
      return [map.slice(0, at), checkType(map.slice(at + 1))] as const;
    }),
  );
  return (names) => {
    const mapped = names.find((name) => known.has(name));
    return mapped === undefined ? `${prefix}${names.at(-1)}` : (known.get(mapped) as string);
  };
}

export interface Converted {
  readonly to: Imported;
  /** What of --key its payload lacks; empty: nothing. */
  readonly lacks: string;
  /** What is lost because of where it goes. */
  readonly losses: readonly string[];
}

const GROUP = 'the group is not moved: only a queue whose keys take turns has groups';
const DEAD_KEY = 'the unique key of a dead letter is not moved: a dead letter holds no key here';
const GIVEN_KEY = 'its own partition key is not moved: --key gives another';
const CUT = 'the end of its error is not moved: it is too long';
const FEWER = `more than ${MAX_ATTEMPTS} attempts are not moved: that is the most here`;

/** Throws Stays with a reason that many jobs can share. */
export function convert(job: SourceJob, target: Target): Converted {
  if (job.stays) throw new Stays(job.stays);
  if (job.payload === null)
    throw new Stays(`its payload is larger than ${target.maxPayloadBytes} bytes`);
  const payload = checked('its payload is not JSON', () => JSON.parse(job.payload as string));
  const limits = { maxBytes: target.maxPayloadBytes, what: 'payload' };
  checked('its payload cannot be stored', () => encodePayload(payload, limits));
  const id = uuidv7();
  const type = checked('its type is no usable name; --map names another', () =>
    checkType(target.types(job.names)),
  );
  const { key: given, lacks } = target.key?.(payload) ?? { key: job.partitionKey, lacks: '' };
  const key = given === null ? id : checked('its partition key is unusable', () => checkKey(given));
  const group = job.group !== null && target.groups ? job.group : null;
  const once =
    job.once &&
    checked('its unique key is unusable', () => ({ ...job.once, key: checkKey(job.once?.key) }));
  const importKey = checked('its id is unusable', () =>
    checkKey(`import:${target.kind}:${job.id}`),
  );
  const attempts = Math.max(0, Math.min(job.attempts, MAX_ATTEMPTS));
  const to: Imported = {
    importKey,
    attempts,
    dead: job.dead,
    lastError: job.error === null ? null : storable(job.error, MAX_BYTES),
    job: {
      ...{ id, type, version: 1, key, group, bucket: bucketOf(group ?? key) },
      // As it was there: numbers that no double holds stay exact.
      payload: job.payload,
      headers: encodeHeaders(job.headers ?? undefined),
      priority: job.priority,
      maxAttempts: Math.min(Math.max(job.maxAttempts, job.dead ? 1 : attempts + 1), MAX_ATTEMPTS),
      ...{ delayMs: 0, runAt: dueOf(job.runAt), limitKey: null },
      idempotencyKey: once?.as === 'idempotency' ? once.key : null,
      // A job that has ended frees its key: a job that waits under it is another one.
      unique:
        once && once.as !== 'idempotency' && !job.dead
          ? { key: once.key, while: once.as as 'pending', onConflict: 'ignore', windowMs: null }
          : null,
    },
  };
  const losses = [
    job.group !== null && group === null && GROUP,
    once && once.as !== 'idempotency' && job.dead && DEAD_KEY,
    target.key && job.partitionKey !== null && GIVEN_KEY,
    job.error !== null && Buffer.byteLength(job.error) > MAX_BYTES && CUT,
    Math.max(job.attempts, job.maxAttempts) > MAX_ATTEMPTS && FEWER,
  ].filter((one): one is string => typeof one === 'string');
  return { to, lacks, losses };
}

function dueOf(runAt: string | null): string | null {
  if (runAt === null) return null;
  const time = Date.parse(runAt);
  if (Number.isNaN(time)) throw new Stays('it is never due');
  if (time > Date.now() + MAX_DELAY_MS) throw new Stays('it is due more than ten years ahead');
  // A time in the past means now; the year may be one that Postgres' parser does not take.
  return time < 0 ? null : new Date(time).toISOString();
}

function checked<Value>(reason: string, check: () => Value): Value {
  try {
    return check();
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw new Stays(reason, { cause: error });
    throw new Stays(reason, { cause: new Error(error.message.split(/[;.] nothing /i, 1)[0]) });
  }
}
