/**
 * Real processes for crash tests: starts a script of `test/processes`, hears what it says over IPC and
 * tells it things. Whatever a test does to its children, they are gone when the test is over. The
 * scripts import the compiled product, because that is what users run.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import type { WorkerOptions, WorkerStats } from '../../packages/holdfast/src/index.js';
import { until } from './until.js';

/** What a child says; which facts come with which kind is written in the scripts. */
export interface Message {
  readonly kind: string;
  readonly id?: string;
  readonly generation?: number;
  readonly workerId?: string;
  readonly was?: string;
  readonly code?: string;
  readonly message?: string;
  readonly what?: string;
  readonly stats?: WorkerStats;
  readonly heapUsed?: number;
  readonly rss?: number;
  readonly keys?: readonly string[];
  readonly errors?: number;
  readonly fresh?: number;
}

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

const STDERR_CHARS = 4_000;

export class Child {
  readonly messages: Message[] = [];
  readonly exited: Promise<Exit>;
  exit: Exit | null = null;
  readonly #process: ChildProcess;
  #stderr = '';

  constructor(script: string, config: object, nodeArguments: readonly string[] = []) {
    const dist = new URL('../../packages/holdfast/dist/index.js', import.meta.url);
    if (!existsSync(fileURLToPath(dist))) {
      throw new Error('dist/ is missing: run `node scripts/ensure.mjs` before these tests.');
    }
    const path = fileURLToPath(new URL(`../processes/${script}.mjs`, import.meta.url));
    this.#process = fork(path, [JSON.stringify(config)], {
      // A process that aborts may leave a core file where it runs.
      cwd: tmpdir(),
      execArgv: [...nodeArguments],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    this.#process.on('message', (message: Message) => void this.messages.push(message));
    this.#process.stderr?.on('data', (data) => {
      this.#stderr = (this.#stderr + data).slice(-STDERR_CHARS);
    });
    this.exited = new Promise((resolve) => {
      this.#process.on('close', (code, signal) => {
        this.exit = { code, signal };
        resolve(this.exit);
      });
    });
    onTestFinished(async () => {
      if (!this.exit) this.#process.kill('SIGKILL');
      await this.exited;
    });
  }

  heard(kind: string, facts: Partial<Message> = {}): Message | undefined {
    return this.messages.find((message) => matches(message, { ...facts, kind }));
  }

  count(kind: string): number {
    return this.messages.filter((message) => message.kind === kind).length;
  }

  /** Waits for a message that was said already or will be; fails at once when the child has ended. */
  hears(kind: string, facts: Partial<Message> = {}, timeoutMs = 30_000): Promise<Message> {
    return until(
      `${kind} ${JSON.stringify(facts)} from process ${this.pid}`,
      () => {
        const message = this.heard(kind, facts);
        if (!message && this.exit) throw new Error(this.describe());
        return message;
      },
      { everyMs: 5, timeoutMs },
    );
  }

  tell(command: { do: string; id?: string; untilFile?: string; unique?: object }): void {
    this.#process.send(command);
  }

  /** Asks a question and returns the answer to this one, not to an earlier one. */
  async ask(question: 'stats' | 'memory'): Promise<Message> {
    const before = this.count(question);
    this.tell({ do: question });
    await until(`the ${question} of process ${this.pid}`, () => {
      if (this.exit) throw new Error(this.describe());
      return this.count(question) > before;
    });
    return this.messages.findLast((message) => message.kind === question) as Message;
  }

  get pid(): number {
    return this.#process.pid as number;
  }

  signal(name: NodeJS.Signals): void {
    this.#process.kill(name);
  }

  describe(): string {
    const ended = this.exit ? `ended with ${JSON.stringify(this.exit)}` : 'is running';
    return `process ${this.pid} ${ended}; its stderr:\n${this.#stderr}`;
  }
}

function matches(message: Message, facts: Partial<Message>): boolean {
  return Object.entries(facts).every(([name, value]) => message[name as keyof Message] === value);
}

export type ChildWorkerOptions = Omit<WorkerOptions, 'onEvent' | 'metadata'>;

/**
 * Times at which a fleet notices within two seconds what takes it half a minute by default. Not faster:
 * a disk that stands still for a second, as busy ones do, must not look like a crash.
 */
export const QUICK: ChildWorkerOptions = {
  lease: '10s',
  renewEvery: '500ms',
  heartbeat: '200ms',
  ttl: '2s',
  maintenance: '200ms',
  poll: '100ms',
};

export function startWorker(
  url: string,
  options: ChildWorkerOptions = QUICK,
  nodeArguments: readonly string[] = [],
): Child {
  return new Child('worker', { url, options }, nodeArguments);
}

/** A worker that is registered and looking for jobs. */
export async function readyWorker(url: string, options: ChildWorkerOptions = QUICK) {
  const child = startWorker(url, options);
  const { workerId } = await child.hears('started');
  return Object.assign(child, { workerId: workerId as string });
}
