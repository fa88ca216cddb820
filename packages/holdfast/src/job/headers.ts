// A job's headers: a small, flat object of strings for what travels with the job but is not its data, such as a trace id.
// The limits keep a claim's rows short. What is accepted comes back from Postgres exactly as it was given.

import { invalid, shown } from './errors/holdfast-error.js';
import { unstorable } from './options/text.js';

/** Carries the tag of a run (the index of tags in migration 8). */
export const TAG_HEADER = 'holdfast_tag';

const MAX_HEADERS = 32;
const MAX_VALUE_LENGTH = 1024;
const NAME = /^[A-Za-z0-9_.-]{1,100}$/;

/** The JSON text of the headers, or null if there are none; throws OPTION_INVALID. */
export function encodeHeaders(headers: unknown): string | null {
  if (headers === undefined) return null;
  const entries = entriesOf(headers);
  if (entries.length > MAX_HEADERS) {
    throw refused(`headers has ${entries.length} entries, more than the ${MAX_HEADERS} allowed`);
  }
  // Joined by hand: Object.fromEntries and JSON.stringify would let a toJSON have its say.
  const members = entries.map(([name, value]) => {
    checkName(name);
    return `"${name}":${JSON.stringify(checkValue(name, value))}`;
  });
  return `{${members.join(',')}}`;
}

function entriesOf(headers: unknown): [string, unknown][] {
  const problem = `headers must be a plain object of strings, got ${kindOf(headers)}`;
  if (typeof headers !== 'object' || headers === null) throw refused(problem);
  let plain: boolean;
  let entries: [string, unknown][];
  try {
    // The prototype of a plain object, of this realm or another, has none itself. Arrays, Maps and
    // the Headers of fetch lie one step further down and would otherwise pass as empty.
    const prototype = Object.getPrototypeOf(headers);
    plain = prototype === null || Object.getPrototypeOf(prototype) === null;
    entries = plain ? Object.entries(headers) : [];
  } catch (cause) {
    throw refused('headers could not be read', { cause });
  }
  if (!plain) throw refused(`${problem} of a class`);
  return entries;
}

function checkName(name: string): void {
  if (NAME.test(name) && name !== '__proto__') return;
  throw refused(
    `${shown(name)} is not a header name, which is 1 to 100 letters, digits, "_", "." or "-"`,
  );
}

function checkValue(name: string, value: unknown): string {
  if (typeof value !== 'string') {
    throw refused(`header ${name} must be a string, got ${kindOf(value)}`);
  }
  if (value.length > MAX_VALUE_LENGTH) {
    throw refused(
      `header ${name} has ${value.length} characters, more than the ${MAX_VALUE_LENGTH} allowed`,
    );
  }
  const problem = unstorable(value);
  if (problem) throw refused(`header ${name} contains ${problem}, which Postgres cannot store`);
  return value;
}

/** Never the value: it may be a secret that was meant to be one of the strings. */
const kindOf = (value: unknown) => (value === null ? 'null' : typeof value);

const refused = (problem: string, options?: { cause: unknown }) =>
  invalid(`${problem}; nothing was enqueued; put data into the payload instead`, options);
