// Reading whatever a handler threw: an Error, half an error, a string, a revoked Proxy. Each property is read at most
// once, under a guard, and no method is called. Only counts are bounded here; failure.ts cuts the text.

import { shown } from './holdfast-error.js';

const MAX_MEMBERS = 5;
const MAX_PREVIEW = 10;

/** What could be learnt about a thrown value. */
export interface Thrown {
  name: string;
  message: string;
  stack: string | null;
  code: string | null;
  /** undefined if there is none */
  cause: unknown;
  /** The first few errors of an AggregateError. */
  members: unknown[];
  memberCount: number;
}

export function readThrown(thrown: unknown): Thrown {
  if (thrown === null || (typeof thrown !== 'object' && typeof thrown !== 'function')) {
    return { ...NOTHING, message: primitiveText(thrown) };
  }
  const message = read(thrown, 'message');
  const stack = read(thrown, 'stack');
  const code = read(thrown, 'code');
  const isError = typeof message === 'string' || typeof stack === 'string';
  return {
    name: nameOf(thrown, isError || message === UNREADABLE ? 'Error' : 'NonError'),
    message: messageText(message) ?? preview(thrown),
    stack: typeof stack === 'string' ? stack : null,
    code: typeof code === 'string' || typeof code === 'number' ? `${code}` : null,
    cause: readable(read(thrown, 'cause')),
    ...membersOf(read(thrown, 'errors')),
  };
}

const NO_MEMBERS = { members: [], memberCount: 0 };
const NOTHING = { name: 'NonError', stack: null, code: null, cause: undefined, ...NO_MEMBERS };

/** Stands for a property whose getter, or whose Proxy, threw. */
const UNREADABLE = Symbol('unreadable');

function read(object: object, name: string): unknown {
  return attempt(() => Reflect.get(object, name), UNREADABLE);
}

function attempt<T>(action: () => T, otherwise: T): T {
  try {
    return action();
  } catch {
    return otherwise;
  }
}

function readable(value: unknown): unknown {
  return value === UNREADABLE || value === null ? undefined : value;
}

function primitiveText(value: unknown): string {
  return typeof value === 'string' || typeof value === 'symbol' ? String(value) : shown(value);
}

function messageText(message: unknown): string | null {
  if (message === UNREADABLE) return '(reading the message threw an error)';
  if (message === undefined || message === null) return null;
  return typeof message === 'object' ? preview(message) : primitiveText(message);
}

/** The error's name; its class's where the name says no more than "Error", as most classes' do. */
function nameOf(thrown: object, otherwise: string): string {
  const name = read(thrown, 'name');
  if (typeof thrown === 'object' && typeof name === 'string' && !/^(error)?$/i.test(name)) {
    return name;
  }
  const ownClass = read(thrown, 'constructor');
  const className = typeof ownClass === 'function' ? read(ownClass, 'name') : undefined;
  const tells = typeof className === 'string' && !/^(Object|Function)?$/.test(className);
  return tells ? className : otherwise;
}

/** The first own properties of an object that is no error; nothing nested is looked into. */
function preview(object: object): string {
  if (typeof object === 'function') return 'a function';
  return attempt(() => {
    // The names of a buffer's or an array's items could be millions.
    if (ArrayBuffer.isView(object)) return `${object.byteLength} bytes`;
    if (Array.isArray(object)) return `an array of ${object.length}`;
    const names = Object.keys(object);
    const some = names.slice(0, MAX_PREVIEW).map((name) => {
      const value = read(object, name);
      return `${name}: ${value === UNREADABLE ? 'unreadable' : shown(value)}`;
    });
    const more = names.length > MAX_PREVIEW ? [`${names.length - MAX_PREVIEW} more`] : [];
    return `{ ${[...some, ...more].join(', ')} }`;
  }, 'an object that could not be read');
}

function membersOf(errors: unknown): Pick<Thrown, 'members' | 'memberCount'> {
  return attempt(() => {
    if (!Array.isArray(errors)) return NO_MEMBERS;
    const memberCount = errors.length;
    const members: unknown[] = [];
    for (let i = 0; i < memberCount && i < MAX_MEMBERS; i++) members.push(errors[i]);
    return { members, memberCount };
  }, NO_MEMBERS);
}
