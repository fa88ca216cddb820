/** Payloads on the command line. */
import { UsageError } from '../failures.js';

export async function readStdin(): Promise<string> {
  let text = '';
  for await (const chunk of process.stdin.setEncoding('utf8')) text += chunk;
  return text;
}

/** The message of JSON.parse quotes the text, which may be a secret. */
export function parsePayload(text: string, undone: string, where = 'The payload'): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new UsageError(
      `${where} is not JSON; ${undone}. Quote it for the shell: '{"orderId": 9182}'.`,
    );
  }
}
