// From a partition key to its bucket, and which keys and types are accepted. The hash is FNV-1a (32 bits) over the UTF-8
// bytes, finished with murmur3's fmix32 because FNV-1a alone spreads short, similar keys badly. Buckets are stored, and the
// database computes them as well, so this is a format: a changed bit would tear streams apart. It runs in a browser too.

import { HoldfastError, shown } from './errors/holdfast-error.js';
import { isPairAt, unstorable, utf8Length } from './options/text.js';

export const BUCKETS = 1024;

const MAX_KEY_BYTES = 512;
const TYPE = /^[A-Za-z][A-Za-z0-9_.:-]{0,99}$/;

const FNV_OFFSET = 2166136261;
const FNV_PRIME = 16777619;

/** The hash as an unsigned 32-bit number. Half of a surrogate pair hashes as U+FFFD. */
export function hash32(text: string): number {
  let h = FNV_OFFSET;
  for (let i = 0; i < text.length; i++) {
    let unit = text.charCodeAt(i);
    if (unit < 0x80) {
      h = Math.imul(h ^ unit, FNV_PRIME);
      continue;
    }
    if (unit < 0x800) {
      h = Math.imul(h ^ (0xc0 | (unit >> 6)), FNV_PRIME);
    } else {
      if (isPairAt(text, i, unit)) {
        i += 1;
        unit = 0x10000 + ((unit & 0x3ff) << 10) + (text.charCodeAt(i) & 0x3ff);
        h = Math.imul(h ^ (0xf0 | (unit >> 18)), FNV_PRIME);
        h = Math.imul(h ^ (0x80 | ((unit >> 12) & 0x3f)), FNV_PRIME);
      } else {
        if ((unit & 0xf800) === 0xd800) unit = 0xfffd;
        h = Math.imul(h ^ (0xe0 | (unit >> 12)), FNV_PRIME);
      }
      h = Math.imul(h ^ (0x80 | ((unit >> 6) & 0x3f)), FNV_PRIME);
    }
    h = Math.imul(h ^ (0x80 | (unit & 0x3f)), FNV_PRIME);
  }
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/** The bucket of a partition key, 0 to 1023. */
export const bucketOf = (key: string): number => hash32(key) & (BUCKETS - 1);

const NOT_ENQUEUED = 'nothing was enqueued; use a short text such as "order:9182"';

/** Returns the key if it can be stored and hashed the same everywhere, else throws KEY_INVALID. `undone`: what was not done, and the fix. */
export function checkKey(key: unknown, what = 'key', undone = NOT_ENQUEUED): string {
  const refuse = (problem: string) =>
    new HoldfastError('KEY_INVALID', `${what} ${problem}; ${undone}`);
  if (typeof key !== 'string') throw refuse(`must be a string, got ${shown(key)}`);
  if (key === '') throw refuse('must not be empty');
  // A unit is at most three bytes, so most keys need no counting.
  const bytes = key.length * 3 > MAX_KEY_BYTES ? utf8Length(key) : 0;
  if (bytes > MAX_KEY_BYTES)
    throw refuse(`is ${bytes} bytes long, more than the ${MAX_KEY_BYTES} allowed`);
  const problem = unstorable(key);
  if (problem) throw refuse(`contains ${problem}, which Postgres cannot store`);
  return key;
}

/** Returns the job type if it is a usable name, else throws TYPE_INVALID. */
export function checkType(
  type: unknown,
  what = 'a job type',
  undone = 'nothing was enqueued; use a name such as "send_receipt"',
): string {
  if (typeof type === 'string' && TYPE.test(type)) return type;
  throw new HoldfastError(
    'TYPE_INVALID',
    `${what} must start with a letter and hold at most 100 letters, digits, "_", ".", ":" or "-", ` +
      `got ${shown(type)}; ${undone}`,
  );
}
