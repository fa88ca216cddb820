/** What a request asks for: a filter from the query or from a body, and bodies that are bounded. */
import type { JobsFilter } from 'holdfast';
import { Refused } from './reply.js';

const MAX_BODY = 256 * 1024;
const MAX_IDS = 1_000;

export async function bodyText(request: Request): Promise<string> {
  const reader = request.body?.getReader();
  const parts: Uint8Array[] = [];
  for (let size = 0; reader; ) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > MAX_BODY) {
      await reader.cancel();
      throw new Refused(413, `The body has more than ${MAX_BODY} bytes; nothing was done.`);
    }
    parts.push(value);
  }
  return Buffer.concat(parts).toString('utf8');
}

export type Body = Readonly<Record<string, unknown>>;

export async function jsonBody(request: Request): Promise<Body> {
  if (!/^application\/json\b/.test(request.headers.get('content-type') ?? ''))
    throw new Refused(415, 'Send application/json; nothing was done.');
  const text = await bodyText(request);
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Body;
  } catch {}
  throw new Refused(400, 'The body is no JSON object; nothing was done.');
}

export function text(body: Body, name: string): string | undefined {
  const value = body[name];
  if (value === undefined || value === null || value === '') return undefined;
  if (typeof value === 'string') return value;
  throw new Refused(400, `${name} is not a text; nothing was done.`);
}

export function needed(body: Body, name: string): string {
  const value = text(body, name);
  if (value !== undefined) return value;
  throw new Refused(400, `${name} is missing; nothing was done.`);
}

export function ids(body: Body): readonly string[] {
  const { ids: given } = body;
  if (Array.isArray(given) && given.length > 0 && given.length <= MAX_IDS) return given;
  throw new Refused(400, `ids must be a list of 1 to ${MAX_IDS} ids; nothing was done.`);
}

const PARTS = { type: 'type', key: 'partitionKey', error: 'error', older: 'older', newer: 'newer' };

/** As the client writes it: `{ status: 'pending,processing', type, key, error, older, newer }`. */
export function filterOf(read: (name: string) => string | undefined): JobsFilter {
  const status = read('status')?.split(',');
  const type = read('type')?.split(',');
  const entries = Object.entries(PARTS).flatMap(([from, to]) => {
    const value = from === 'type' ? type : read(from);
    return value === undefined ? [] : [[to, value]];
  });
  return { ...(status && { status }), ...Object.fromEntries(entries) } as JobsFilter;
}

export const fromQuery = (query: URLSearchParams) => (name: string) => query.get(name) || undefined;

export function numberOf(query: URLSearchParams, name: string): number | undefined {
  const value = query.get(name);
  if (value === null) return undefined;
  if (/^\d{1,9}$/.test(value)) return Number(value);
  throw new Refused(400, `${name} is no whole number.`);
}
