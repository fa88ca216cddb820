/** Runs plain-worker.mjs, as it is or bundled, and sees whether it keeps what it holds. */
import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import type { TestGround } from './database.js';
import { until } from './until.js';

export const PLAIN_WORKER = fileURLToPath(
  new URL('../processes/plain-worker.mjs', import.meta.url),
);

export interface PlainEvent {
  readonly kind: string;
  readonly what?: string;
  readonly code?: string;
  readonly message?: string;
}

export class PlainWorker {
  readonly child: ChildProcess;
  readonly exited: Promise<number | null>;
  #out = '';
  #err = '';

  constructor(url: string, [command, ...args]: readonly string[], env: NodeJS.ProcessEnv = {}) {
    this.child = spawn(command as string, args, {
      env: { ...process.env, ...env, DATABASE_URL: url },
    });
    onTestFinished(() => void this.child.kill('SIGKILL'));
    this.child.stdout?.setEncoding('utf8').on('data', (text) => {
      this.#out += text;
    });
    this.child.stderr?.setEncoding('utf8').on('data', (text) => {
      this.#err += text;
    });
    this.child.stdin?.on('error', () => undefined);
    this.exited = new Promise((resolve, reject) => {
      this.child.on('error', reject);
      this.child.on('close', resolve);
    });
  }

  get events(): PlainEvent[] {
    const lines = this.#out.split('\n').slice(0, -1);
    return lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line));
  }

  say(command: 'finish' | 'kill-thread'): void {
    this.child.stdin?.write(`${command}\n`);
  }

  /** Waits for an event of this kind, or fails with what the process said instead. */
  async event(kind: string): Promise<PlainEvent> {
    const { child } = this;
    return until(kind, () => {
      const found = this.events.find((event) => event.kind === kind);
      if (!found && (child.exitCode !== null || child.signalCode !== null))
        throw new Error(`it ended with ${child.exitCode}: ${this.#out}${this.#err}`);
      return found;
    });
  }
}

const wait = job('wait');

export interface PlainJob {
  readonly status: string;
  readonly attempts: number;
  readonly generation: number;
}

/** What it needs of a database. */
type On = Pick<TestGround, 'hf' | 'rows'>;

export async function jobOf(db: On, id: string): Promise<PlainJob | undefined> {
  const [row] = await db.rows<PlainJob>(
    `SELECT status::text, attempts, lease_generation::int AS generation
     FROM holdfast.inbox WHERE id = $1
     UNION ALL
     SELECT status::text, attempts, lease_generation::int FROM holdfast.inbox_archive WHERE id = $1`,
    [id],
  );
  return row;
}

/** A job that lasts far longer than its lease is run once, by a worker that is seen to be alive. */
export async function keepsItsLease(db: On, worker: PlainWorker): Promise<void> {
  await worker.event('started');
  const { id } = await db.hf.enqueue(wait, {});
  await until('it runs', async () => (await jobOf(db, id))?.status === 'processing');
  const [leases, beats] = [new Set<string>(), new Set<string>()];
  await until('renewals and heartbeats for longer than a lease', async () => {
    const [row] = await db.rows<{ lease: string; seen: string }>(
      `SELECT i.lease_expires_at::text AS lease, w.last_seen_at::text AS seen
       FROM holdfast.inbox AS i JOIN holdfast.workers AS w ON w.id = i.claimed_by
       WHERE i.id = $1`,
      [id],
    );
    if (row) leases.add(row.lease);
    if (row) beats.add(row.seen);
    return leases.size > 4 && beats.size > 3;
  });
  worker.say('finish');
  await until('it is completed', async () => (await jobOf(db, id))?.status === 'completed');
  expect(await jobOf(db, id)).toMatchObject({ attempts: 1, generation: 1 });
  expect(worker.events.filter(({ what }) => what === 'the keeper thread failed')).toEqual([]);
  worker.child.kill('SIGTERM');
  expect(await worker.exited).toBe(0);
}
