/** A worker as another language has one: plain statements on a plain connection, and nothing else of Holdfast. */
import type { TestGround } from './database.js';

export interface Given {
  readonly id: string;
  readonly type: string;
  readonly version: number;
  readonly payload: { readonly n: number; readonly key?: string };
  readonly generation: string;
  readonly attempt: number;
  readonly crashes: number;
  readonly partition_key: string;
}

export interface RegisterOptions {
  readonly queues?: readonly string[];
  readonly versions?: Readonly<Record<string, number>>;
  readonly ttl?: string;
}

export type SqlWorker = Awaited<ReturnType<ReturnType<typeof sqlWorkers>>>;

export function sqlWorkers({ rows }: Pick<TestGround, 'rows'>) {
  return async (types: readonly string[], options: RegisterOptions = {}) => {
    const { queues = ['inbox'], versions = {}, ttl = '30 seconds' } = options;
    const one = async <Value>(text: string, params: unknown[]): Promise<Value> =>
      Object.values((await rows<Record<string, Value>>(text, params))[0] ?? {})[0] as Value;
    const id = await one<string>(
      'SELECT holdfast.worker_register($1, $2, $3, ttl => $4::interval)',
      [types, queues, JSON.stringify(versions), ttl],
    );
    const settle = (call: string, job: Pick<Given, 'id' | 'generation'>, ...more: unknown[]) =>
      one<string>(
        `SELECT holdfast.${call}($1, $2, $3${more.map((_, n) => `, $${n + 4}`).join('')})`,
        [id, job.id, job.generation, ...more],
      );
    return {
      id,
      claim: (most = 10, queue = 'inbox', lease = '90 seconds') =>
        rows<Given>('SELECT * FROM holdfast.worker_claim($1, $2, $3, $4::interval)', [
          ...[id, queue, most, lease],
        ]),
      beat: () => one<string>('SELECT holdfast.worker_heartbeat($1)', [id]),
      leave: () => one<string | null>('SELECT holdfast.worker_leave($1)', [id]),
      renew: (jobs: readonly Given[], lease = '90 seconds') =>
        rows<{ id: string }>(
          'SELECT id FROM holdfast.worker_renew($1, $2, $3, $4::interval) AS id',
          [id, jobs.map((job) => job.id), jobs.map((job) => job.generation), lease],
        ),
      settle,
      complete: (job: Pick<Given, 'id' | 'generation'>, result: unknown = null) =>
        settle('worker_complete', job, JSON.stringify(result)),
      fail: (job: Given, error: string) => settle('worker_fail', job, error),
    };
  };
}
