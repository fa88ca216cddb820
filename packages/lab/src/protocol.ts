/** What the page and the engine's thread say to each other. */
import type { Act, Frame, Settings } from './engine/frame.js';
import type { JourneyName } from './engine/lab.js';

export type Call =
  | {
      readonly call: 'open';
      readonly name: JourneyName;
      readonly seed: number;
      readonly settings: Settings;
    }
  | { readonly call: 'act'; readonly act: Act }
  | { readonly call: 'advance'; readonly ms: number };

export type ToEngine = Call & { readonly id: number };

export type FromEngine =
  /** Postgres is migrated, or it could not be loaded. */
  | { readonly kind: 'ready'; readonly tookMs: number }
  | { readonly kind: 'failed'; readonly error: string }
  | { readonly kind: 'progress'; readonly text: string }
  | { readonly kind: 'frames'; readonly id: number; readonly frames: readonly Frame[] }
  | { readonly kind: 'error'; readonly id: number; readonly error: string };
