/** A dashboard as a browser's fetch sees it: requests made by hand, answered by the handler itself. */
import { contextOf } from '../../packages/dashboard/src/context.js';
import { handlerOf } from '../../packages/dashboard/src/dashboard.js';
import { checkOptions, type DashboardOptions } from '../../packages/dashboard/src/options.js';
import type { Holdfast } from '../../packages/holdfast/src/index.js';

export const ORIGIN = 'http://localhost';
/** What the page sends with an act. */
export const ACT = {
  'content-type': 'application/json',
  'x-holdfast': '1',
  'sec-fetch-site': 'same-origin',
};

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: what it is, the test says.
  readonly body: any;
}

export function asking(
  hf: Holdfast,
  options: DashboardOptions = { loopback: true, write: true },
  pollMs = 100,
) {
  const handle = handlerOf(contextOf(hf, checkOptions(options), pollMs));
  async function ask(path: string, init: RequestInit = {}): Promise<Answer> {
    const headers = { host: 'localhost', ...(init.headers as Record<string, string>) };
    const response = await handle(new Request(ORIGIN + path, { ...init, headers }));
    const text = await response.text();
    const json = response.headers.get('content-type')?.startsWith('application/json');
    const { status, headers: got } = response;
    return { status, headers: got, text, body: json && text ? JSON.parse(text) : null };
  }
  return {
    handle,
    ask,
    get: (path: string, headers: Record<string, string> = {}) => ask(path, { headers }),
    post: (path: string, body: unknown, headers: Record<string, string> = {}) =>
      ask(path, { method: 'POST', headers: { ...ACT, ...headers }, body: JSON.stringify(body) }),
  };
}

export interface StreamEvent {
  readonly event: string;
  readonly id: string | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: what it is, the test says.
  readonly data: any;
}

/** Reads server-sent events, one call at a time. */
export function eventsOf(response: Response) {
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const decoder = new TextDecoder();
  let text = '';
  return {
    async next(): Promise<StreamEvent | null> {
      for (;;) {
        const end = text.indexOf('\n\n');
        if (end < 0) {
          const { done, value } = await reader.read();
          if (done) return null;
          text += decoder.decode(value, { stream: true });
          continue;
        }
        const lines = text.slice(0, end).split('\n');
        text = text.slice(end + 2);
        const field = (name: string) =>
          lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
        const event = field('event');
        if (event) return { event, id: field('id'), data: JSON.parse(field('data') ?? 'null') };
      }
    },
    close: () => reader.cancel(),
  };
}
