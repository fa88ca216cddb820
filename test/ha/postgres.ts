/**
 * Servers of the system's own Postgres, with all its programs: Debian's packages have pg_basebackup, pg_rewind and
 * pg_upgrade, which the embedded one has not. They listen on the loopback alone, in a folder of the test, and are
 * stopped when the test is over. Under root they run as the account that the embedded server would have.
 */
import { spawn } from 'node:child_process';
import {
  accessSync,
  appendFileSync,
  chownSync,
  constants,
  mkdtempSync,
  readdirSync,
  rmSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { serverAccount } from '../../packages/embedded/src/server/account.js';
import { freePort } from '../../packages/embedded/src/server/port.js';

const HOME = '/usr/lib/postgresql';
const PROGRAMS = [
  ...['initdb', 'postgres', 'pg_ctl', 'psql', 'createdb', 'pg_basebackup', 'pg_rewind'],
  ...['pg_upgrade', 'pg_dump', 'pg_restore', 'pg_controldata', 'vacuumdb'],
];

function isWhole(bin: string): boolean {
  try {
    for (const program of PROGRAMS) accessSync(join(bin, program), constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

export interface Version {
  readonly major: number;
  readonly bin: string;
}

/** The installed versions with all programs, the oldest first. */
export function installedVersions(): Version[] {
  let names: string[] = [];
  try {
    names = readdirSync(HOME);
  } catch {
    return [];
  }
  return names
    .map((name) => ({ major: Number(name), bin: join(HOME, name, 'bin') }))
    .filter(({ major, bin }) => major >= 15 && isWhole(bin))
    .sort((a, b) => a.major - b.major);
}

export interface Output {
  readonly out: string;
  readonly all: string;
}

/** A folder for servers. */
export class Site {
  readonly folder: string;
  readonly #account = serverAccount();

  constructor() {
    this.folder = mkdtempSync(join(tmpdir(), 'holdfast-ha-'));
    if (this.#account.steppedDown) chownSync(this.folder, this.#account.uid, this.#account.gid);
    onTestFinished(() => rmSync(this.folder, { recursive: true, force: true }));
  }

  /** Runs lines of a shell in the folder, as the server's account; rejects with all that they said. */
  shell(lines: string, env: Readonly<Record<string, string>>, asMyself = false): Promise<Output> {
    const { uid, gid, steppedDown } = this.#account;
    const child = spawn('sh', ['-eu', '-c', lines], {
      cwd: this.folder,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      ...(steppedDown && !asMyself && { uid, gid }),
    });
    let [out, all] = ['', ''];
    child.stdout.setEncoding('utf8').on('data', (text) => {
      out += text;
      all += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text) => {
      all += text;
    });
    return new Promise((resolve, reject) => {
      child.on('error', reject);
      child.on('close', (code, signal) => {
        if (code === 0) resolve({ out, all });
        else reject(new Error(`ended with ${code ?? signal}:\n${lines}\n${all}`));
      });
    });
  }
}

/** One server, running or not. */
export class Server {
  readonly site: Site;
  readonly version: Version;
  readonly data: string;
  readonly port: number;
  readonly log: string;

  private constructor(site: Site, version: Version, name: string, port: number) {
    [this.site, this.version, this.port] = [site, version, port];
    this.data = join(site.folder, name);
    this.log = join(site.folder, `${name}.log`);
    onTestFinished(() => this.end());
  }

  /** Its folder is still missing. */
  static async at(site: Site, version: Version, name: string): Promise<Server> {
    return new Server(site, version, name, await freePort());
  }

  get env(): Record<string, string> {
    return {
      ...{ PATH: `${this.version.bin}:${process.env.PATH}`, LC_ALL: 'C.UTF-8' },
      ...{ PGDATA: this.data, PGPORT: String(this.port), LOG: this.log },
      ...{ PGHOST: this.site.folder, PGUSER: 'postgres', PGDATABASE: 'shop' },
    };
  }

  get url(): string {
    return `postgres://postgres@127.0.0.1:${this.port}/shop`;
  }

  /** How a standby reaches it. */
  get conninfo(): string {
    return conninfoOf('127.0.0.1', this.port);
  }

  run(lines: string, more: Readonly<Record<string, string>> = {}): Promise<Output> {
    return this.site.shell(lines, { ...this.env, ...more });
  }

  /** The settings that docs/high-availability.md asks for, and those of a small machine. */
  configure(): void {
    const lines = [
      ...['wal_log_hints = on', 'wal_keep_size = 1GB', "listen_addresses = '127.0.0.1'"],
      ...[`unix_socket_directories = '${this.site.folder}'`, 'shared_buffers = 64MB'],
      ...["timezone = 'UTC'", 'max_connections = 150'],
    ];
    appendFileSync(join(this.data, 'postgresql.conf'), `\n${lines.join('\n')}\n`);
  }

  /** A new cluster with the database `shop`, running. */
  async create(): Promise<void> {
    await this.run(
      'initdb --username=postgres --auth=trust --encoding=UTF8 --locale=C --data-checksums',
    );
    this.configure();
    await this.run('pg_ctl start --log="$LOG"; createdb --maintenance-db=postgres shop');
  }

  /** As the out-of-memory killer or a power cut ends it: nobody is told, nothing is flushed. */
  async kill(): Promise<void> {
    await this.run('kill -9 "$(head -n 1 "$PGDATA/postmaster.pid")"');
    // Its children end when they notice; until then they would keep the folder.
    await this.run(
      'for i in $(seq 300); do psql --dbname=postgres --command="" >/dev/null 2>&1 || break; sleep 0.1; done',
    );
  }

  async end(): Promise<void> {
    await this.run('pg_ctl stop --mode=immediate').catch(() => undefined);
  }
}

export const conninfoOf = (host: string, port: number | string) =>
  `host=${host} port=${port} user=postgres sslmode=disable gssencmode=disable`;
