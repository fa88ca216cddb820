// From a JavaScript value to the JSON text of its payload. As with JSON.stringify, undefined properties are left out and
// toJSON is called: a Date is its ISO text. Whatever else JSON or jsonb cannot hold is refused with the path to it, because
// JSON.stringify would drop or convert it in silence. Each property is read once, and what was read is written: no getter
// or Proxy can show one value to the check and another to the text. Of the value's code only toJSON, a Proxy's traps and
// getters in place of array items run.

import { HoldfastError } from './errors/holdfast-error.js';
import {
  MAX_PAYLOAD_DEPTH,
  pathText,
  refuse,
  refuseTooDeep,
  refuseTooLarge,
  refuseUnlessPlain,
  type Walk,
} from './errors/refusal.js';
import { unstorable, utf8Length } from './options/text.js';

// One object reached along many paths can write exponentially much text, so the walk ends before memory does; not at the
// limit itself, so that the message can usually name the size.
const OVERSIZE_FACTOR = 8;

/** Also of a Date of another realm. Whatever is no Date has no such time. */
function isInvalidDate(value: unknown): boolean {
  try {
    return Number.isNaN(Date.prototype.getTime.call(value));
  } catch {
    return false;
  }
}

/** The JSON text of a payload, at most maxBytes long in UTF-8, or a HoldfastError with the path. */
export function encodePayload(
  value: unknown,
  options: { maxBytes: number; what: string; consequence?: string },
): string {
  const { maxBytes, what, consequence = 'nothing was enqueued' } = options;
  const room = OVERSIZE_FACTOR * maxBytes;
  const place = { path: [], depth: 0, parents: [] };
  const walk: Walk = { what, consequence, maxBytes, ...place, room, refusal: null };
  let text: string;
  try {
    text = write(walk, converted(walk, value, 0), 0);
  } catch (error) {
    if (walk.refusal !== null && error === walk.refusal) throw error;
    throw new HoldfastError(
      'PAYLOAD_NOT_JSON',
      `${pathText(walk, walk.depth)} could not be read; ${consequence}; ` +
        'pass plain data; the cause is what reading it threw',
      { cause: error },
    );
  }
  // A UTF-16 unit is at most three bytes, so small payloads need no counting.
  if (text.length * 3 > maxBytes) {
    const bytes = utf8Length(text);
    if (bytes > maxBytes) refuseTooLarge(walk, `${bytes} bytes`);
  }
  return text;
}

function write(walk: Walk, value: unknown, depth: number): string {
  switch (typeof value) {
    case 'string':
      return writeString(walk, value, depth);
    case 'number':
      if (!Number.isFinite(value)) refuse(walk, depth, `is ${value}`, 'use null or a string');
      return `${value}`;
    case 'boolean':
      return value ? 'true' : 'false';
    case 'object':
      if (value === null) return 'null';
      if (Array.isArray(value)) return writeArray(walk, value, depth);
      return writeObject(walk, value, depth);
    case 'undefined':
      return refuse(walk, depth, 'is undefined', 'use null');
    case 'bigint':
      return refuse(walk, depth, 'is a BigInt', 'convert it to a string');
    case 'function':
      return refuse(walk, depth, 'is a function', 'leave it out, a job holds only data');
    default:
      return refuse(walk, depth, 'is a symbol', 'use a string');
  }
}

/** What the toJSON of a value returns, or the value itself. */
function converted(walk: Walk, value: unknown, depth: number): unknown {
  if ((typeof value !== 'object' && typeof value !== 'bigint') || value === null) return value;
  const { toJSON } = value as { toJSON?: unknown };
  // The bytes of a Buffer as a list of numbers are nobody's wish: it is refused, with a better way.
  if (typeof toJSON !== 'function' || Buffer.isBuffer(value)) return value;
  // JSON.stringify would write null.
  if (isInvalidDate(value)) refuse(walk, depth, 'is an invalid Date', 'use null or a valid one');
  return toJSON.call(value, String(walk.path[depth - 1] ?? ''));
}

// Printable ASCII without the two characters that JSON escapes: most strings, and safe as they are.
const PLAIN = /^[ !#-[\]-~]*$/;

function writeString(walk: Walk, text: string, depth: number): string {
  spend(walk, text.length);
  if (PLAIN.test(text)) return `"${text}"`;
  const problem = unstorable(text);
  if (problem) refuse(walk, depth, `contains ${problem}`, 'remove it, Postgres cannot store it');
  return JSON.stringify(text);
}

function writeArray(walk: Walk, array: unknown[], depth: number): string {
  if (Object.getPrototypeOf(array) !== Array.prototype) refuseUnlessPlain(walk, array, depth);
  enter(walk, array, depth);
  const { length } = array;
  let text = '[';
  for (let i = 0; i < length; i++) {
    step(walk, i, depth);
    const item = converted(walk, array[i], depth + 1);
    if (item === undefined && !(i in array)) {
      refuse(walk, depth + 1, 'is a hole in the array', 'use null');
    }
    spend(walk, 1);
    if (i > 0) text += ',';
    text += write(walk, item, depth + 1);
  }
  walk.depth = depth;
  return `${text}]`;
}

function writeObject(walk: Walk, object: object, depth: number): string {
  const prototype = Object.getPrototypeOf(object);
  if (prototype !== Object.prototype && prototype !== null) refuseUnlessPlain(walk, object, depth);
  enter(walk, object, depth);
  if (Object.getOwnPropertySymbols(object).length > 0) {
    refuse(walk, depth, 'has a symbol as a property name', 'use a string as the name');
  }
  let text = '';
  for (const name of Object.keys(object)) {
    step(walk, name, depth);
    // The descriptor is the one reading of the property: it holds the value and runs no getter.
    const property = Object.getOwnPropertyDescriptor(object, name) ?? {};
    if (property.get !== undefined || property.set !== undefined) {
      refuse(walk, depth + 1, 'is a getter', 'copy its value into a plain property');
    }
    if (name === '__proto__') {
      const problem = 'would replace the prototype of an object that it is copied to';
      refuse(walk, depth + 1, problem, 'rename the property');
    }
    const value = converted(walk, property.value, depth + 1);
    if (value === undefined) continue;
    spend(walk, 1);
    text += text === '' ? '{' : ',';
    text += `${writeString(walk, name, depth + 1)}:`;
    text += write(walk, value, depth + 1);
  }
  walk.depth = depth;
  return text === '' ? '{}' : `${text}}`;
}

function enter(walk: Walk, container: object, depth: number): void {
  walk.parents[depth] = container;
  if (depth >= MAX_PAYLOAD_DEPTH) refuseTooDeep(walk);
}

function step(walk: Walk, to: string | number, depth: number): void {
  walk.path[depth] = to;
  walk.depth = depth + 1;
}

function spend(walk: Walk, characters: number): void {
  walk.room -= characters;
  if (walk.room < 0) refuseTooLarge(walk, `over ${OVERSIZE_FACTOR * walk.maxBytes} bytes`);
}
