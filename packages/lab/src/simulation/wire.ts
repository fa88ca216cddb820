/** Statements on a PGlite in Postgres' own protocol, prepared once: a third of the time that `query()` takes. */
import type { PGlite } from '@electric-sql/pglite';
import { Message } from './message.js';

export interface Answer {
  readonly fields: readonly string[];
  readonly rows: (string | null)[][];
  readonly notifications: { readonly channel: string; readonly payload: string }[];
  readonly error: { readonly message: string; readonly code: string } | null;
  /** What Postgres says that it did: `INSERT 0 1`. */
  readonly tag: string;
}

const prepared = new WeakMap<PGlite, Map<string, string>>();
/** No name is used twice: one may stand although its first execution failed. */
let names = 0;
const decoder = new TextDecoder();

/** `describe`: also the names of the columns. */
export function ask(
  pglite: PGlite,
  text: string,
  params: readonly unknown[],
  describe = false,
): Answer {
  const all = prepared.get(pglite) ?? new Map<string, string>();
  prepared.set(pglite, all);
  const known = all.get(text);
  const name = known ?? `s${++names}`;
  const message = new Message();
  if (!known) message.begin('P').text(name).text(text).int16(0);
  message.begin('B').text('').text(name).int16(0).int16(params.length);
  for (const value of params) message.value(value === null ? null : String(value));
  message.int16(0);
  if (describe) message.begin('D').byte('P').text('');
  message.begin('E').text('').int32(0).begin('S');
  const answer = read(pglite.execProtocolRawSync(message.bytes()));
  if (!answer.error) all.set(text, name);
  return answer;
}

/** Several statements in one text, without parameters. */
export function askSimple(pglite: PGlite, text: string): Answer {
  return read(pglite.execProtocolRawSync(new Message().begin('Q').text(text).bytes()));
}

function read(bytes: Uint8Array): Answer {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const answer = {
    fields: [] as string[],
    rows: [] as (string | null)[][],
    notifications: [] as { channel: string; payload: string }[],
    error: null as Answer['error'],
    tag: '',
  };
  for (let at = 0; at < bytes.length; ) {
    const type = String.fromCharCode(bytes[at] as number);
    const end = at + 1 + view.getInt32(at + 1);
    const body = bytes.subarray(at + 5, end);
    if (type === 'D') answer.rows.push(readRow(body));
    else if (type === 'T') answer.fields = readFields(body);
    else if (type === 'A') {
      const [channel = '', payload = ''] = decoder.decode(body.subarray(4)).split('\0');
      answer.notifications.push({ channel, payload });
    } else if (type === 'C') answer.tag = decoder.decode(body.subarray(0, -1));
    else if (type === 'E') answer.error ??= readError(body);
    at = end;
  }
  return answer;
}

const viewOf = (body: Uint8Array) => new DataView(body.buffer, body.byteOffset, body.byteLength);

function readRow(body: Uint8Array): (string | null)[] {
  const view = viewOf(body);
  const row: (string | null)[] = [];
  const count = view.getInt16(0);
  for (let n = 0, at = 2; n < count; n++) {
    const length = view.getInt32(at);
    at += 4;
    if (length < 0) row.push(null);
    else row.push(decoder.decode(body.subarray(at, at + length)));
    at += Math.max(0, length);
  }
  return row;
}

function readFields(body: Uint8Array): string[] {
  const fields: string[] = [];
  for (let at = 2; at < body.length; at += 18) {
    const end = body.indexOf(0, at);
    fields.push(decoder.decode(body.subarray(at, end)));
    at = end + 1;
  }
  return fields;
}

function readError(body: Uint8Array) {
  const parts = new Map(
    decoder
      .decode(body)
      .split('\0')
      .map((part) => [part.slice(0, 1), part.slice(1)]),
  );
  return { message: parts.get('M') ?? '', code: parts.get('C') ?? '' };
}
