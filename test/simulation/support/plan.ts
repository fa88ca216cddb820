/** From a seed to a schedule: who works, what is enqueued when, and what goes wrong. */
import { chance } from '../../../packages/lab/src/simulation/clock.js';
import type { MessageFault, NetworkFault } from '../../../packages/lab/src/simulation/network.js';

export interface PlannedJob {
  readonly name: string;
  readonly id: string;
  readonly atMs: number;
  readonly key: string;
  readonly handlerMs: number;
  /** So many attempts fail. */
  readonly failures: number;
}

/** A process is frozen for a while, killed, or told to stop; one that ended is started again after `ms`. */
export interface ProcessFault {
  readonly kind: 'freeze' | 'kill' | 'stop';
  readonly owner: string;
  readonly atMs: number;
  readonly ms: number;
}

export type Fault = ProcessFault | MessageFault;

export interface Plan {
  readonly seed: number;
  readonly queue: 'inbox' | 'ordered';
  readonly workers: readonly string[];
  readonly jobs: readonly PlannedJob[];
  readonly faults: readonly Fault[];
  /** A planted bug: no notification arrives, and nobody polls. */
  readonly deaf?: boolean;
}

export const isProcessFault = (fault: Fault): fault is ProcessFault => 'atMs' in fault;

/** Where it hurts most. */
const STATEMENTS = [
  ...[
    'claim',
    'claim',
    'complete',
    'complete',
    'look_around',
    'recover',
    'fail',
    'release',
    'renew',
  ],
  ...['register_worker', 'notify', 'notification', 'hold_liveness', 'watch_worker', 'connect', ''],
];
const NETWORK: readonly NetworkFault[] = [
  'cut before',
  'cut after',
  'silence',
  'delay',
  'late answer',
];

export function planOf(seed: number): Plan {
  const random = chance(seed);
  const upTo = (n: number) => Math.floor(random() * n);
  const one = <Value>(values: readonly Value[]) => values[upTo(values.length)] as Value;
  const workers = ['w1', 'w2', 'w3'].slice(0, random() < 0.8 ? 2 : 3);
  const hex = (digits: number) =>
    Array.from({ length: digits }, () => upTo(16).toString(16)).join('');
  const jobs = Array.from({ length: 2 + upTo(4) }, (_, n): PlannedJob => {
    const dice = random();
    return {
      name: `j${n + 1}`,
      id: `${hex(8)}-${hex(4)}-7${hex(3)}-8${hex(3)}-${hex(12)}`,
      atMs: 20 + upTo(random() < 0.7 ? 300 : 5_000),
      key: one(['a', 'a', 'b']),
      handlerMs: dice < 0.5 ? upTo(30) : dice < 0.9 ? upTo(1_500) : 3_000 + upTo(6_000),
      failures: random() < 0.2 ? 1 : 0,
    };
  });
  const faults = Array.from({ length: 1 + upTo(3) }, (): Fault => {
    const owner = one(workers);
    if (random() < 0.4) {
      const kind = one(['freeze', 'kill', 'stop'] as const);
      const ms = kind === 'freeze' ? 500 + upTo(12_000) : 200 + upTo(3_000);
      return { kind, owner, atMs: 10 + upTo(3_000), ms };
    }
    const ms = random() < 0.5 ? 5 + upTo(400) : 2_000 + upTo(9_000);
    return { kind: one(NETWORK), owner, statement: one(STATEMENTS), nth: 1 + upTo(3), ms };
  });
  // A process that is gone, and whose last word arrives when its jobs are somebody else's.
  if (random() < 0.15) {
    const [owner, statement] = [
      one(workers),
      one(['complete', 'complete', 'complete', 'fail', 'claim']),
    ];
    faults.push({ kind: 'last word', owner, statement, nth: 1, ms: 2_000 + upTo(3_000) });
  }
  return { seed, queue: random() < 0.6 ? 'inbox' : 'ordered', workers, jobs, faults };
}

export function describePlan({ queue, workers, jobs, faults }: Plan): string {
  return [
    `queue ${queue}, workers ${workers.join(' ')}`,
    ...jobs.map(
      ({ name, atMs, key, handlerMs, failures }) =>
        `  ${name}: enqueued at ${atMs} ms, key ${key}, takes ${handlerMs} ms, fails ${failures} times`,
    ),
    ...faults.map((fault) =>
      isProcessFault(fault)
        ? `  fault: ${fault.kind} ${fault.owner} at ${fault.atMs} ms for ${fault.ms} ms`
        : `  fault: ${fault.kind} at message ${fault.nth} "${fault.statement}" of ${fault.owner} (${fault.ms} ms)`,
    ),
  ].join('\n');
}
