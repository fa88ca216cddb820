// Why a payload is refused: the path to the value, what it is, and the fix. payload.ts calls in here only when something
// is wrong. Each refusal is noted in the walk, so that payload.ts can tell it from what a Proxy throws.

import { HoldfastError, type HoldfastErrorCode } from './holdfast-error.js';

/** How many objects and arrays may lie inside each other. */
export const MAX_PAYLOAD_DEPTH = 100;

const MAX_NAME_SHOWN = 40;
const MAX_PATH_SHOWN = 300;

/** Where the walk through one payload stands. */
export interface Walk {
  readonly what: string;
  /** What follows from a refusal, in words. */
  readonly consequence: string;
  readonly maxBytes: number;
  /** The names and indexes that lead to the value at hand: entry n is the step below depth n. */
  readonly path: (string | number)[];
  /** How many entries of the path count; setting this is cheaper than cutting the array. */
  depth: number;
  /** The objects and arrays on that path: entry n is the one at depth n. */
  readonly parents: object[];
  /** How many more characters may be written before the walk ends. */
  room: number;
  refusal: HoldfastError | null;
}

/** Throws PAYLOAD_NOT_JSON for the value at this depth of the walk's path. */
export function refuse(walk: Walk, depth: number, problem: string, fix: string): never {
  const message = `${pathText(walk, depth)} ${problem}; ${walk.consequence}; ${fix}`;
  return fail(walk, 'PAYLOAD_NOT_JSON', message);
}

export function refuseTooLarge(walk: Walk, size: string): never {
  return fail(
    walk,
    'PAYLOAD_TOO_LARGE',
    `${walk.what} is ${size} of JSON, more than the ${walk.maxBytes} bytes allowed; ` +
      `${walk.consequence}; store the data elsewhere and keep a reference to it, ` +
      'or raise maxPayloadBytes',
  );
}

/** Too deep or endless. Cycles are looked for only here, because here is where they all end up. */
export function refuseTooDeep(walk: Walk): never {
  const { parents } = walk;
  for (const [depth, parent] of parents.entries()) {
    const first = parents.indexOf(parent);
    if (first === depth) continue;
    const problem = `refers back to ${pathText(walk, first)}, a cycle`;
    return refuse(walk, depth, problem, 'refer to it by an id');
  }
  const problem = `lies deeper than the ${MAX_PAYLOAD_DEPTH} levels allowed`;
  return refuse(walk, MAX_PAYLOAD_DEPTH, problem, 'flatten the data');
}

const FIXES = new Map([
  ['Map', 'use Object.fromEntries()'],
  ['Set', 'use an array'],
  ['Buffer', "use toString('base64')"],
  ['Uint8Array', 'encode it as text, for example in base64'],
]);

/**
 * Refuses instances of classes by name. Plain objects and arrays of another realm (vm, Jest) have
 * prototypes that are not ours and pass.
 */
export function refuseUnlessPlain(walk: Walk, value: object, depth: number): void {
  const kind = Array.isArray(value) ? 'Array' : 'Object';
  const prototype = Object.getPrototypeOf(value);
  const name: unknown = prototype?.constructor?.name;
  const root = kind === 'Array' && prototype ? Object.getPrototypeOf(prototype) : prototype;
  const isRoot = root !== null && Object.getPrototypeOf(root) === null;
  if (name === kind && isRoot) return;
  if (typeof name !== 'string' || name === '' || name === kind) {
    refuse(walk, depth, 'has a prototype of its own', 'copy the data into a plain object');
  }
  const fix = FIXES.get(name) ?? 'pass a plain object with its data';
  refuse(walk, depth, `is an instance of the class ${name.slice(0, MAX_NAME_SHOWN)}`, fix);
}

/** The path as a reader would type it: payload.items[3]["unit price"]. */
export function pathText(walk: Walk, depth: number): string {
  const path = walk.what + walk.path.slice(0, depth).map(stepText).join('');
  if (path.length <= MAX_PATH_SHOWN) return path;
  return `${path.slice(0, MAX_PATH_SHOWN / 2)}…${path.slice(-MAX_PATH_SHOWN / 2)}`;
}

function stepText(step: string | number): string {
  if (typeof step === 'number') return `[${step}]`;
  const name = step.length > MAX_NAME_SHOWN ? `${step.slice(0, MAX_NAME_SHOWN)}…` : step;
  return /^[A-Za-z_$][\w$]*$/.test(step) ? `.${name}` : `[${JSON.stringify(name)}]`;
}

function fail(walk: Walk, code: HoldfastErrorCode, message: string): never {
  walk.refusal = new HoldfastError(code, message);
  throw walk.refusal;
}
