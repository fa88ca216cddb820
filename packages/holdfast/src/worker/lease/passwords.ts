/**
 * Passwords for the keeper's connections, where the caller gave a function: it stays in the main thread, and the thread
 * asks at every connect. While the main thread is blocked, the connect runs into its time limit and is tried again.
 */
import { randomUUID } from 'node:crypto';
import type { Address } from '../../postgres/connect/address.js';
import type { PasswordAnswer, Tell } from './protocol.js';

export function passwords(tell: Tell) {
  const asked = new Map<string, (answer: PasswordAnswer) => void>();
  return {
    askedBy(address: Address): Address {
      const password = async (of: object = {}): Promise<string> => {
        const { host, port, user, database } = of as Record<string, unknown>;
        const ask = randomUUID();
        const answer = await new Promise<PasswordAnswer>((resolve) => {
          asked.set(ask, resolve);
          tell('passwordAsked', ask, { host, port, user, database });
        });
        if ('refused' in answer) throw new Error(answer.refused);
        return answer.password as string;
      };
      return { ...address, password: password as () => Promise<string> };
    },
    answer(ask: string, answer: PasswordAnswer): void {
      asked.get(ask)?.(answer);
      asked.delete(ask);
    },
  };
}

/** In the main thread: what the function says, or why it says nothing. */
export async function passwordOf(find: () => unknown): Promise<PasswordAnswer> {
  try {
    const password = await find();
    if (password === undefined || typeof password === 'string') return { password };
    return { refused: 'the function for the password did not return a text' };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return { refused: `the function for the password failed: ${message}` };
  }
}
