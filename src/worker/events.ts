/**
 * What a worker tells while it runs, for metrics, logs and tests. Facts about jobs, never payloads.
 * Listeners are called synchronously; one that throws is reported and does not disturb the worker.
 */
export type WorkerEvent =
  | { readonly kind: 'started'; readonly workerId: string }
  | { readonly kind: 'reborn'; readonly workerId: string; readonly was: string }
  | { readonly kind: 'stopped'; readonly workerId: string }
  | { readonly kind: 'claimed'; readonly queue: string; readonly count: number }
  | JobEvent
  | {
      readonly kind: 'housekept';
      readonly queue: string;
      readonly recovered: number;
      readonly pruned: number;
    }
  | { readonly kind: 'trouble'; readonly what: string; readonly error: unknown };

export interface JobEvent {
  readonly kind:
    | 'started-job'
    | 'completed'
    | 'failed'
    | 'buried'
    | 'snoozed'
    | 'released'
    | 'cancelled'
    | 'lost';
  readonly queue: string;
  readonly id: string;
  readonly type: string;
  readonly generation: number;
}

export interface WorkerStats {
  claimed: number;
  completed: number;
  failed: number;
  buried: number;
  snoozed: number;
  released: number;
  cancelled: number;
  lost: number;
}
