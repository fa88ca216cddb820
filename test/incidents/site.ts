/**
 * A place where something breaks: a server of its own, the schema, the least privileged roles, a small fleet of real
 * processes, and the tools of an operator. What a fix prints is run as it is printed.
 */
import { readFileSync } from 'node:fs';
import pg from 'pg';
import { expect, onTestFinished } from 'vitest';
import { type EmbeddedServer, startEmbedded } from '../../packages/embedded/src/index.js';
import {
  type Holdfast,
  holdfast,
  type JobDefinition,
  job,
  type WorkerOptions,
} from '../../packages/holdfast/src/index.js';
import type { Finding, Limits } from '../../packages/holdfast/src/inspect/doctor/doctor.js';
import { Child, type Exit } from '../support/child.js';
import { type Ran, run } from '../support/cli-run.js';
import { examine } from '../support/doctor.js';
import { quietLogger } from '../support/logger.js';
import { until } from '../support/until.js';

const ROLES = readFileSync(new URL('../../docs/roles.sql', import.meta.url), 'utf8');

/** A fleet that notices within seconds what takes it half a minute by default. */
const TIMES = {
  ...{ lease: '10s', renewEvery: '500ms', heartbeat: '300ms', ttl: '4s' },
  ...{ maintenance: '300ms', poll: '100ms', concurrency: 4 },
} as const;

/** So much sooner than by default the doctor calls a thing late: nobody waits five minutes here. */
const SOON: Partial<Limits> = {
  ...{ oldestMs: 4_000, unhandledMs: 2_000, scheduleMs: 3_000, maintenanceMs: 6_000 },
  ...{
    horizonMs: 3_000,
    lockedMs: 2_000,
    idleMs: 3_000,
    failedAttempts: 5,
    silentMs: 4_000,
    deadLetters: 50,
    stoppedMs: 2_000,
    quietMs: 3_000,
    lateMs: 2_000,
  },
};

export const TYPES = ['work', 'hang', 'leak', 'refuse', 'boom'] as const;
export type Type = (typeof TYPES)[number];

export interface Release {
  readonly types?: readonly Type[];
  readonly broken?: boolean;
  readonly queues?: readonly string[];
  readonly options?: Partial<WorkerOptions>;
  /** For Node. */
  readonly args?: readonly string[];
}

export interface SiteOptions extends Release {
  readonly workers?: number;
  readonly settings?: Record<string, string | number | boolean>;
}

export class Site {
  readonly server: EmbeddedServer;
  readonly hf: Holdfast;
  readonly pool: pg.Pool;
  readonly fleet: (Child & { workerId: string })[] = [];

  private constructor(server: EmbeddedServer) {
    this.server = server;
    this.hf = holdfast({ connectionString: server.url, logger: quietLogger });
    this.pool = new pg.Pool({ connectionString: server.url, max: 5 });
    this.pool.on('error', () => undefined);
  }

  static async open({ workers = 2, settings = {}, ...release }: SiteOptions = {}): Promise<Site> {
    const server = await startEmbedded({
      throwaway: true,
      settings: {
        ...{ max_connections: 60, max_prepared_transactions: 5, shared_buffers: '32MB' },
        ...settings,
      },
    });
    const site = new Site(server);
    onTestFinished(async () => {
      for (const worker of site.fleet) {
        worker.signal('SIGCONT');
        worker.signal('SIGKILL');
      }
      await Promise.race([
        site.hf.close(),
        new Promise((resolve) => setTimeout(resolve, 3_000).unref()),
      ]);
      await server.stop();
      await site.pool.end();
    });
    await site.hf.migrate();
    await site.sql(ROLES);
    for (const role of ['worker', 'producer'])
      await site.sql(`CREATE ROLE app_${role} LOGIN PASSWORD 'secret' IN ROLE holdfast_${role}`);
    for (let n = 0; n < workers; n++) await site.join(release);
    return site;
  }

  urlOf(user: string): string {
    const url = new URL(this.server.url);
    [url.username, url.password] = [user, 'secret'];
    return url.toString();
  }

  async sql<Row extends object = Record<string, unknown>>(text: string, params?: unknown[]) {
    return (await this.pool.query(text, params)).rows as Row[];
  }

  /** A session that an operator forgot. */
  async session(...texts: readonly string[]): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: this.server.url, application_name: 'psql' });
    client.on('error', () => undefined);
    await client.connect();
    onTestFinished(() => client.end().catch(() => undefined));
    for (const text of texts) await client.query(text);
    return client;
  }

  spawn({
    types = TYPES,
    broken = false,
    queues = ['inbox'],
    options = {},
    args = [],
  }: Release = {}): Child {
    const config = {
      url: this.urlOf('app_worker'),
      options: { ...TIMES, ...options },
      types,
      broken,
      queues,
    };
    return new Child('incident-worker', config, args);
  }

  async join(release: Release = {}): Promise<void> {
    const child = this.spawn(release);
    const { workerId } = await child.hears('started');
    this.fleet.push(Object.assign(child, { workerId: workerId as string }));
  }

  async kill(): Promise<Exit[]> {
    for (const worker of this.fleet) worker.signal('SIGKILL');
    return Promise.all(this.fleet.splice(0).map(({ exited }) => exited));
  }

  of(type: string, more: object = {}): JobDefinition<object, object> {
    return job<object>(type, more);
  }

  async add(type: string, count = 1, options: object = {}): Promise<string[]> {
    const queue = (options as { queue?: string }).queue ?? 'inbox';
    const definition = this.of(queue === 'inbox' ? type : `${type}_${queue}`, { queue });
    const { queue: _, ...rest } = options as { queue?: string };
    const items = Array.from({ length: count }, () =>
      definition.item({ canary: 'payload-7f3a' }, rest),
    );
    return (await this.hf.enqueueMany(items)).map(({ id }) => id);
  }

  /** `compared`: with the schema that the migrations make, which is most of the work. */
  async findings(compared = false): Promise<Finding[]> {
    const found = await examine(this.server.url, { limits: SOON, compared });
    return compared ? found : found.filter(({ check }) => check !== 'schema drift');
  }

  async problems(compared = false): Promise<Finding[]> {
    return (await this.findings(compared)).filter(({ level }) => level === 'problem');
  }

  /** A new job is done, whoever does it. */
  async works(type: Type = 'work', options: object = {}): Promise<void> {
    const [id] = await this.add(type, 1, options);
    await until(`a new job is done (${type})`, async () => {
      const seen = await this.hf.job(id as string, options);
      return seen?.status === 'completed';
    });
  }

  async explains(id: string): Promise<string> {
    return (await this.hf.explain(id)).code;
  }

  cli(args: readonly string[]): Promise<Ran> {
    return run(args, { env: { DATABASE_URL: this.server.url } });
  }

  /** Runs each line of a fix that is a statement or a command, in order, as somebody would paste it. */
  async paste(fix: string): Promise<number> {
    let ran = 0;
    for (const line of fix.split('\n').flatMap((text) => text.split(/(?<=;) (?=[A-Z])/))) {
      const command = /^(?:npx )?holdfast (.*)$/.exec(line.trim())?.[1];
      if (command) {
        const said = await this.cli([
          ...words(command),
          ...(/ (ls|show)\b/.test(command) ? [] : []),
        ]);
        expect(said.code, `${line}\n${said.err}`).toBe(0);
        ran++;
      } else if (/^kill -KILL \d+$/.test(line)) {
        const pid = Number(line.split(' ').at(-1));
        const own = this.fleet.find((worker) => worker.pid === pid);
        expect(own, line).toBeDefined();
        own?.signal('SIGKILL');
        ran++;
      } else if (/^[A-Z]{3,}[^;]*;$/.test(line.trim())) {
        const client = await this.session();
        await client.query(line.trim());
        await client.end();
        ran++;
      }
    }
    return ran;
  }
}

/** As a shell takes them apart. */
const words = (line: string): string[] =>
  [...line.matchAll(/'((?:[^']|'\\'')*)'|"([^"]*)"|(\S+)/g)].map(
    ([, single, double, bare]) => single?.replaceAll(`'\\''`, `'`) ?? double ?? (bare as string),
  );
