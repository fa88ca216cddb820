/** Messages of Postgres' protocol, as far as clients that share one session need them to be read, changed and made. */

/** Bytes that hold whole messages, and perhaps the beginning of another one. */
export function* messagesOf(bytes: Buffer): Generator<Buffer> {
  for (let at = 0; at + 5 <= bytes.length; ) {
    const end = at + 1 + bytes.readInt32BE(at + 1);
    if (end > bytes.length) return;
    yield bytes.subarray(at, end);
    at = end;
  }
}

export const typeOf = (message: Buffer) => String.fromCharCode(message[0] as number);

export function message(type: string, ...parts: readonly (string | Buffer)[]): Buffer {
  const body = Buffer.concat(parts.map((part) => (typeof part === 'string' ? text(part) : part)));
  const head = Buffer.alloc(5);
  head.write(type, 'latin1');
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}

/** Ended by a zero. */
const text = (value: string) => Buffer.from(`${value}\0`);

export function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

/** The text that begins there in the message. */
export const textAt = (bytes: Buffer, at: number) =>
  bytes.toString('utf8', at, bytes.indexOf(0, at));

const after = (bytes: Buffer, at: number) => bytes.indexOf(0, at) + 1;

/** Where in a message of a client the name of a prepared statement stands; -1: it has none. */
function nameAt(given: Buffer): number {
  const type = typeOf(given);
  if (type === 'P') return 5;
  if (type === 'B') return after(given, 5);
  if (type === 'D' || type === 'C') return given[5] === 'S'.charCodeAt(0) ? 6 : -1;
  return -1;
}

/** The same message with another name of the prepared statement; the one without a name keeps none. */
export function rename(given: Buffer, nameOf: (name: string) => string): Buffer {
  const at = nameAt(given);
  if (at < 0 || given[at] === 0) return given;
  return message(
    typeOf(given),
    given.subarray(5, at),
    nameOf(textAt(given, at)),
    given.subarray(after(given, at)),
  );
}

/** What the client asks to be run or prepared; empty: nothing. */
export function sqlOf(given: Buffer): string {
  const type = typeOf(given);
  if (type === 'Q') return textAt(given, 5);
  return type === 'P' ? textAt(given, after(given, 5)) : '';
}

export const READY = message('Z', Buffer.from('I'));
export const SYNC = message('S');
export const COPY_FAIL = message('f', 'No data came.');
/** Text, and no columns: who sends data looks at neither. */
export const COPY_IN = message('G', Buffer.from([0, 0, 0]));

/** What a server says to a client that it lets in. */
export const welcome = (pid: number) =>
  Buffer.concat([message('R', int32(0)), message('K', int32(pid), int32(0)), READY]);

export const notification = (pid: number, channel: string, payload: string) =>
  message('A', int32(pid), channel, payload);

export const failure = (severity: 'ERROR' | 'FATAL', code: string, reason: string) =>
  message('E', `S${severity}`, `V${severity}`, `C${code}`, `M${reason}`, Buffer.alloc(1));
