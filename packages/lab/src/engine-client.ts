/** The way to the engine's thread. It is started when it is first asked, and says how far it is. */
import { signal } from '@preact/signals';
import type { Frame } from './engine/frame.js';
import type { Call, FromEngine } from './protocol.js';

export type EngineState =
  | { readonly is: 'off' }
  | { readonly is: 'loading'; readonly text: string }
  | { readonly is: 'ready' }
  | { readonly is: 'failed'; readonly error: string };

export const engineState = signal<EngineState>({ is: 'off' });

interface Waiting {
  readonly resolve: (frames: readonly Frame[]) => void;
  readonly reject: (error: Error) => void;
}

let worker: Worker | null = null;
let calls = 0;
const waiting = new Map<number, Waiting>();

interface ScriptUrls {
  createPolicy(
    name: string,
    rules: { createScriptURL(url: string): string },
  ): { createScriptURL(url: string): string };
}

/** The one address that this page makes a thread from. Where the browser wants it, through the policy that is allowed. */
function engineUrl(): string {
  const url = new URL('engine.js', document.baseURI).href;
  const { trustedTypes } = globalThis as unknown as { trustedTypes?: ScriptUrls };
  if (!trustedTypes) return url;
  return trustedTypes
    .createPolicy('holdfast-lab', { createScriptURL: () => url })
    .createScriptURL(url);
}

function fail(error: string): void {
  engineState.value = { is: 'failed', error };
  for (const { reject } of waiting.values()) reject(new Error(error));
  waiting.clear();
}

function receive(message: FromEngine): void {
  if (message.kind === 'ready') engineState.value = { is: 'ready' };
  else if (message.kind === 'failed') fail(message.error);
  else if (message.kind === 'progress') engineState.value = { is: 'loading', text: message.text };
  else {
    const call = waiting.get(message.id);
    waiting.delete(message.id);
    engineState.value = { is: 'ready' };
    if (message.kind === 'frames') call?.resolve(message.frames);
    else call?.reject(new Error(message.error));
  }
}

function start(): Worker {
  engineState.value = { is: 'loading', text: 'Loading the engine …' };
  const made = new Worker(engineUrl(), { type: 'module', name: 'holdfast-lab' });
  made.onmessage = ({ data }: MessageEvent<FromEngine>) => receive(data);
  made.onerror = ({ message }) => fail(message || 'engine.js could not be loaded');
  return made;
}

export function ask(call: Call): Promise<readonly Frame[]> {
  if (engineState.peek().is === 'failed')
    return Promise.reject(new Error((engineState.peek() as { error: string }).error));
  worker ??= start();
  const id = ++calls;
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject });
    worker?.postMessage({ ...call, id });
  });
}
