/** Statements on a PGlite in Postgres' own protocol, prepared once: a third of the time that `query()` takes. */
import type { PGlite } from '@electric-sql/pglite';
import { serialize } from 'pg-protocol';

export interface Answer {
  readonly fields: readonly string[];
  readonly rows: (string | null)[][];
  readonly notifications: { readonly channel: string; readonly payload: string }[];
  readonly error: { readonly message: string; readonly code: string } | null;
}

const prepared = new WeakMap<PGlite, Map<string, string>>();

/** `describe`: also the names of the columns. */
export function ask(
  pglite: PGlite,
  text: string,
  params: readonly unknown[],
  describe = false,
): Answer {
  const names = prepared.get(pglite) ?? new Map<string, string>();
  prepared.set(pglite, names);
  const known = names.get(text);
  const name = known ?? `s${names.size + 1}`;
  const values = params.map((value) => (value === null ? null : String(value)));
  const messages = [
    ...(known ? [] : [serialize.parse({ name, text, types: [] })]),
    serialize.bind({ portal: '', statement: name, values }),
    ...(describe ? [serialize.describe({ type: 'P', name: '' })] : []),
    serialize.execute({ portal: '', rows: 0 }),
    serialize.sync(),
  ];
  const answer = read(pglite.execProtocolRawSync(Buffer.concat(messages)));
  if (!answer.error) names.set(text, name);
  return answer;
}

/** Several statements in one text, without parameters. */
export function askSimple(pglite: PGlite, text: string): Answer {
  return read(pglite.execProtocolRawSync(serialize.query(text)));
}

function read(bytes: Uint8Array): Answer {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const answer = {
    fields: [] as string[],
    rows: [] as (string | null)[][],
    notifications: [] as { channel: string; payload: string }[],
    error: null as Answer['error'],
  };
  for (let at = 0; at < buffer.length; ) {
    const type = String.fromCharCode(buffer[at] as number);
    const end = at + 1 + buffer.readInt32BE(at + 1);
    const body = buffer.subarray(at + 5, end);
    if (type === 'D') answer.rows.push(readRow(body));
    else if (type === 'T') answer.fields = readFields(body);
    else if (type === 'A') {
      const [channel = '', payload = ''] = body.toString('utf8', 4).split('\0');
      answer.notifications.push({ channel, payload });
    } else if (type === 'E') answer.error ??= readError(body);
    at = end;
  }
  return answer;
}

function readRow(body: Buffer): (string | null)[] {
  const row: (string | null)[] = [];
  const count = body.readInt16BE(0);
  for (let n = 0, at = 2; n < count; n++) {
    const length = body.readInt32BE(at);
    at += 4;
    if (length < 0) row.push(null);
    else row.push(body.toString('utf8', at, at + length));
    at += Math.max(0, length);
  }
  return row;
}

function readFields(body: Buffer): string[] {
  const fields: string[] = [];
  for (let at = 2; at < body.length; at += 18) {
    const end = body.indexOf(0, at);
    fields.push(body.toString('utf8', at, end));
    at = end + 1;
  }
  return fields;
}

function readError(body: Buffer) {
  const parts = new Map(
    body
      .toString()
      .split('\0')
      .map((part) => [part.slice(0, 1), part.slice(1)]),
  );
  return { message: parts.get('M') ?? '', code: parts.get('C') ?? '' };
}
