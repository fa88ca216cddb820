/** Messages to Postgres as bytes, several in a row. It needs nothing that a browser does not have. */
const encoder = new TextEncoder();

export class Message {
  #bytes = new Uint8Array(1_024);
  #view = new DataView(this.#bytes.buffer);
  #end = 0;
  /** Where the length of the message that is being written stands; -1 before the first. */
  #length = -1;

  /** A new message of this type; the one before is complete. */
  begin(type: string): this {
    this.#close();
    this.byte(type);
    this.#length = this.#end;
    return this.int32(0);
  }

  byte(letter: string): this {
    this.#room(1);
    this.#bytes[this.#end++] = letter.charCodeAt(0);
    return this;
  }

  int16(value: number): this {
    this.#room(2);
    this.#view.setInt16(this.#end, value);
    this.#end += 2;
    return this;
  }

  int32(value: number): this {
    this.#room(4);
    this.#view.setInt32(this.#end, value);
    this.#end += 4;
    return this;
  }

  /** Ended by a zero. */
  text(text: string): this {
    return this.#put(encoder.encode(`${text}\0`));
  }

  /** With its length before it. */
  value(text: string | null): this {
    if (text === null) return this.int32(-1);
    const bytes = encoder.encode(text);
    return this.int32(bytes.length).#put(bytes);
  }

  bytes(): Uint8Array {
    this.#close();
    return this.#bytes.slice(0, this.#end);
  }

  #put(bytes: Uint8Array): this {
    this.#room(bytes.length);
    this.#bytes.set(bytes, this.#end);
    this.#end += bytes.length;
    return this;
  }

  #close(): void {
    if (this.#length >= 0) this.#view.setInt32(this.#length, this.#end - this.#length);
  }

  #room(more: number): void {
    if (this.#end + more <= this.#bytes.length) return;
    const larger = new Uint8Array(2 * (this.#end + more));
    larger.set(this.#bytes);
    this.#bytes = larger;
    this.#view = new DataView(larger.buffer);
  }
}
