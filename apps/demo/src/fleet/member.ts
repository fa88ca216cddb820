/**
 * One member of the fleet, seen from outside: a process, its line to the database, and what was
 * done to it.
 *
 * A frozen process cannot notice that this one was killed. So a small shell wakes it: it reads
 * from a pipe that ends with this process, whatever ends it, and then the worker finds its channel
 * closed.
 */
import { type ChildProcess, fork, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { type Line, openLine } from './line.js';
import type { WorkerNews } from './worker.js';

export type Condition = 'starting' | 'runs' | 'frozen' | 'cut off' | 'draining' | 'gone';

export interface MemberUrls {
  readonly databaseUrl: string;
  /** Of those whom the shop tells what happens. */
  readonly receiversUrl: string;
}

export interface MemberEvents {
  /** It was taken for dead, has noticed, and goes on under a new id. */
  reregistered(member: Member): void;
  /** It has drained. */
  drained(member: Member): void;
  /** A signal ended it that nobody here sent. */
  crashed(member: Member): void;
  /** It has ended and nobody asked it to; `saying` is the last that it wrote. */
  failed(member: Member, saying: string): void;
}

const SCRIPT = fileURLToPath(new URL('./worker.js', import.meta.url));
const LAST_WORDS = 2_000;
const WAKE = `trap '' HUP INT TERM; read -r word; kill -s CONT "$1"`;

export class Member {
  readonly number: number;
  /** Under which it is registered now. */
  id: string | null = null;
  condition: Condition = 'starting';
  /** Settles when it is registered, or was asked to end before. */
  readonly ready: Promise<void>;
  readonly ended: Promise<void>;
  readonly #process: ChildProcess;
  readonly #line: Line;
  readonly #events: MemberEvents;
  #asked: 'kill' | 'drain' | null = null;
  #said = '';
  #wake: (() => void) | null = null;

  static async start(
    number: number,
    { databaseUrl, receiversUrl }: MemberUrls,
    events: MemberEvents,
  ): Promise<Member> {
    return new Member(number, await openLine(databaseUrl), receiversUrl, events);
  }

  private constructor(number: number, line: Line, receiversUrl: string, events: MemberEvents) {
    this.number = number;
    this.#line = line;
    this.#events = events;
    this.#process = fork(SCRIPT, [String(number)], {
      // Not as an argument: everybody can read those, and a URL has a password.
      env: { ...process.env, DATABASE_URL: line.url, RECEIVERS_URL: receiversUrl },
      execArgv: [],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    this.#process.stderr?.on('data', (data) => {
      this.#said = (this.#said + data).slice(-LAST_WORDS);
    });
    const closed = new Promise<number | null>((resolve) => {
      this.#process.once('close', resolve);
      // One that could not be started does not close.
      this.#process.on('error', () => this.#process.pid === undefined && resolve(null));
    });
    this.ended = closed.then((code) => this.#left(code));
    this.ready = new Promise((resolve, reject) => {
      this.#process.on('message', (news: WorkerNews) => this.#received(news, resolve));
      void this.ended.then(() => {
        if (this.#asked) resolve();
        else reject(new Error(`worker ${number} did not start: ${this.#said.trim()}`));
      });
    });
    // Whoever adds it gets the error; it may also end long after.
    this.ready.catch(() => undefined);
  }

  #received({ kind, workerId }: WorkerNews, ready: () => void): void {
    this.id = workerId;
    if (this.condition === 'starting') this.condition = 'runs';
    if (kind === 'reregistered') this.#events.reregistered(this);
    else ready();
  }

  #left(code: number | null): void {
    this.thaw();
    this.#line.close();
    const started = this.condition !== 'starting';
    this.condition = 'gone';
    if (this.#asked === 'drain') this.#events.drained(this);
    if (this.#asked !== null || !started) return;
    if (code === null) {
      this.#events.crashed(this);
      return;
    }
    this.#events.failed(this, this.#said.trim().split('\n').at(-1) || `exit code ${code}`);
  }

  kill(): void {
    this.#asked = 'kill';
    this.condition = 'gone';
    this.#process.kill('SIGKILL');
  }

  freeze(): void {
    const shell = spawn('/bin/sh', ['-c', WAKE, 'wake', String(this.#process.pid)], {
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
    });
    shell.on('error', () => undefined);
    shell.stdin.on('error', () => undefined);
    shell.unref();
    this.#wake = () => shell.stdin.end();
    this.condition = 'frozen';
    this.#process.kill('SIGSTOP');
  }

  thaw(): void {
    if (!this.#wake) return;
    this.#process.kill('SIGCONT');
    this.#wake();
    this.#wake = null;
    if (this.condition === 'frozen') this.condition = 'runs';
  }

  cut(): void {
    this.condition = 'cut off';
    this.#line.cut();
  }

  mend(): void {
    this.#line.mend();
    if (this.condition === 'cut off') this.condition = 'runs';
  }

  /** What a deploy sends: it releases what it has not begun, finishes the rest, and ends. */
  drain(): void {
    this.thaw();
    this.mend();
    this.#asked ??= 'drain';
    this.condition = 'draining';
    this.#process.kill('SIGTERM');
  }
}
