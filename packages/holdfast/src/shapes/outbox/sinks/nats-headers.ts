/**
 * The headers of a message as NATS writes them. Those of the client look through all names for each one that is set; these
 * are written once, from texts that are known.
 */
import { DeadLetter } from '../../../job/errors/errors.js';
import { headersOf, type Message } from '../message.js';

/** What the sink calls of the headers of a NATS message. */
export interface NatsHeadersLike {
  /** Sets one header. */
  set(name: string, value: string): void;
}

const LINE_BREAK = /[\r\n]/;
const NAME = /^[\x21-\x39\x3b-\x7e]+$/;
const MESSAGE_ID = 'Nats-Msg-Id';

/** Throws DeadLetter if a header cannot be sent: it would end the line, and what follows would be a header of its own. */
function textOf(message: Message): string {
  let text = 'NATS/1.0';
  const facts = headersOf(message);
  for (const name in facts) {
    const value = facts[name] as string;
    if (LINE_BREAK.test(value) || !NAME.test(name))
      throw new DeadLetter('a header has a line break in its value, or no name that NATS takes');
    // The id under which JetStream drops second copies is that of the message.
    if (name.toLowerCase() !== MESSAGE_ID.toLowerCase()) text += `\r\n${name}: ${value}`;
  }
  return `${text}\r\n${MESSAGE_ID}: ${message.messageId}\r\n\r\n`;
}

/** To the client they are headers of its own: `of` is an empty one. */
export function headerWriter(of: NatsHeadersLike): (message: Message) => unknown {
  class Written {
    readonly text: string;
    constructor(text: string) {
      this.text = text;
    }
    encode(): Uint8Array {
      return Buffer.from(this.text);
    }
  }
  Object.setPrototypeOf(Written.prototype, of);
  return (message) => new Written(textOf(message));
}
