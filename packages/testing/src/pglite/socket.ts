/**
 * What a client of `pg` takes for its socket: on the other end is a PGlite instead of a server.
 *
 * Messages are collected until one that asks for an answer, and then go to the session together. `COPY … FROM
 * STDIN` is held back until its data is complete, because PGlite cannot wait for data. The session lets nothing
 * else in until the client's transaction is over.
 */
import { EventEmitter } from 'node:events';
import {
  COPY_FAIL,
  COPY_IN,
  failure,
  message,
  messagesOf,
  READY,
  rename,
  SYNC,
  sqlOf,
  textAt,
  typeOf,
  welcome,
} from './messages.js';
import type { Listener, PgliteSession } from './session.js';

const COPIES_IN = /\bCOPY\b[\s\S]*\bSTDIN\b/i;
const LISTENS = /\b(UN)?LISTEN\s+(\*|"(?:[^"]|"")+"|[^\s;"]+)/gi;

export class PgliteSocket extends EventEmitter implements Listener {
  readonly #session: PgliteSession;
  readonly channels = new Set<string>();
  /** Names of prepared statements: the client's, and those of the session. */
  readonly #names = new Map<string, string>();
  /** The beginning of a message whose end has not been written yet. */
  #rest = Buffer.alloc(0);
  /** What is not sent yet. */
  #batch: Buffer[] = [];
  /** The batch is a COPY whose data comes. */
  #copying = false;
  /** After an error on the way to the session, nothing counts before the next Sync. */
  #skipping = false;
  #started = false;
  #last: Promise<void> = Promise.resolve();
  writable = true;

  constructor(session: PgliteSession) {
    super();
    this.#session = session;
  }

  connect(): this {
    this.#session.join(this);
    queueMicrotask(() => this.emit('connect'));
    return this;
  }

  write(bytes: Buffer, written?: () => void): boolean {
    if (this.#started) this.#takeAll(bytes);
    else {
      this.#started = true;
      queueMicrotask(() => this.receive(welcome(this.#session.pid)));
    }
    if (written) queueMicrotask(written);
    return true;
  }

  receive(bytes: Buffer): void {
    if (this.writable && bytes.length > 0) this.emit('data', bytes);
  }

  /** A write may end anywhere in a message: pg-copy-streams sends its head and its data in two. */
  #takeAll(bytes: Buffer): void {
    const all = this.#rest.length > 0 ? Buffer.concat([this.#rest, bytes]) : bytes;
    let end = 0;
    for (const each of messagesOf(all)) {
      end += each.length;
      this.#take(each);
    }
    this.#rest = Buffer.from(all.subarray(end));
  }

  #take(given: Buffer): void {
    const type = typeOf(given);
    if (type === 'X') return;
    if (this.#copying) {
      this.#takeData(given, type);
      return;
    }
    // Postgres ignores what belongs to a COPY where there is none.
    if (type === 'd' || type === 'c' || type === 'f') return;
    this.#batch.push(rename(given, (name) => this.#nameOf(name)));
    if (type === 'Q' && COPIES_IN.test(sqlOf(given))) {
      this.#copying = true;
      queueMicrotask(() => this.receive(COPY_IN));
    } else if (type === 'Q' || type === 'S' || type === 'H') this.#send(type !== 'H');
  }

  #takeData(given: Buffer, type: string): void {
    this.#batch.push(given);
    if (type === 'd') return;
    this.#copying = false;
    // For a second COPY in the same text, for which PGlite would wait.
    this.#batch.push(COPY_FAIL);
    this.#send(true, true);
  }

  #nameOf(name: string): string {
    const own = this.#names.get(name) ?? this.#session.newName();
    this.#names.set(name, own);
    return own;
  }

  #send(complete: boolean, copied = false): void {
    const batch = this.#batch;
    this.#batch = [];
    const texts = batch.map(sqlOf).filter((text) => text !== '');
    if (!copied && texts.some((text) => COPIES_IN.test(text))) {
      batch.splice(-1, 0, COPY_FAIL);
    }
    this.#last = this.#last.then(() => this.#exchange(batch, complete, copied, texts));
  }

  async #exchange(batch: Buffer[], complete: boolean, copied: boolean, texts: string[]) {
    if (!this.writable) return;
    if (this.#skipping) {
      if (complete) this.receive(READY);
      this.#skipping = !complete;
      return;
    }
    try {
      const { bytes } = await this.#session.send(this, Buffer.concat(batch));
      await this.#listen(bytes, texts);
      this.receive(copied ? without(bytes, 'G') : bytes);
    } catch (error) {
      const { code = '57P01', message: reason } = error as Error & { code?: string };
      this.#skipping = !complete;
      this.receive(failure('ERROR', code, reason));
      if (complete) this.receive(READY);
    }
  }

  /** The session listens for all its clients; who listens to what is known here. */
  async #listen(answer: Buffer, texts: readonly string[]): Promise<void> {
    const found = texts.flatMap((text) => [...text.matchAll(LISTENS)]);
    if (found.length === 0) return;
    const did = new Set<string>();
    for (const each of messagesOf(answer)) if (typeOf(each) === 'C') did.add(textAt(each, 5));
    for (const [, not, given = ''] of found) {
      const channel = given.startsWith('"')
        ? given.slice(1, -1).replaceAll('""', '"')
        : given.toLowerCase();
      if (!not && did.has('LISTEN')) this.channels.add(channel);
      if (not && did.has('UNLISTEN')) {
        if (channel === '*') this.channels.clear();
        else this.channels.delete(channel);
      }
    }
    if (did.has('UNLISTEN')) await this.#session.listenAgain();
  }

  /** A client that goes back to its pool with a transaction open leaves nothing of it behind. */
  reset(): void {
    this.#last = this.#last.then(() => this.#rollBack());
  }

  async #rollBack(): Promise<void> {
    if (!this.#session.holds(this)) return;
    const bytes = Buffer.concat([SYNC, message('Q', 'ROLLBACK')]);
    await this.#session.send(this, bytes).catch(() => undefined);
  }

  end(): this {
    void this.#leave();
    return this;
  }

  destroy(error?: Error): this {
    if (error) this.emit('error', error);
    void this.#leave();
    return this;
  }

  async #leave(): Promise<void> {
    if (!this.writable) return;
    this.writable = false;
    this.#session.leave(this);
    queueMicrotask(() => this.emit('close'));
    await this.#last;
    await this.#rollBack();
    await this.#forget();
  }

  /** What only this client could name. */
  async #forget(): Promise<void> {
    const closed = [...this.#names.values()].map((name) => message('C', Buffer.from('S'), name));
    if (closed.length === 0) return;
    await this.#session.send(this, Buffer.concat([...closed, SYNC])).catch(() => undefined);
  }

  cork(): void {}
  uncork(): void {}
  ref(): void {}
  unref(): void {}
  setNoDelay(): void {}
  setKeepAlive(): void {}
}

const without = (bytes: Buffer, type: string) =>
  Buffer.concat([...messagesOf(bytes)].filter((each) => typeOf(each) !== type));
