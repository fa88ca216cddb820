/** What the main thread and the keeper's thread say to each other. Plain data, cloned on the way. */
export interface KeeperSetup {
  readonly connectionString: string;
  readonly schema: string;
  readonly queues: readonly string[];
  readonly workerId: string;
  readonly metadata: object;
  readonly leaseMs: number;
  readonly renewMs: number;
  readonly heartbeatMs: number;
  readonly stallMs: number;
  readonly prepare: boolean;
  /** One counter that the main thread raises while its event loop turns. */
  readonly beat: SharedArrayBuffer;
}

export type ToKeeper =
  | {
      readonly kind: 'hold';
      readonly queue: string;
      readonly ids: readonly string[];
      readonly generations: readonly number[];
    }
  | {
      readonly kind: 'drop';
      readonly queue: string;
      readonly ids: readonly string[];
      readonly generations: readonly number[];
    }
  | { readonly kind: 'identity'; readonly workerId: string }
  | { readonly kind: 'stop' };

export type FromKeeper =
  | {
      readonly kind: 'lost';
      readonly queue: string;
      readonly ids: readonly string[];
      readonly generations: readonly number[];
    }
  | { readonly kind: 'dead'; readonly workerId: string }
  | { readonly kind: 'dead-workers'; readonly ids: readonly string[] }
  | { readonly kind: 'stalled'; readonly forMs: number }
  | {
      readonly kind: 'trouble';
      readonly what: string;
      readonly message: string;
      readonly code: string | null;
    }
  | { readonly kind: 'stopped' };
