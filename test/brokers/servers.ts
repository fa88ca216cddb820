/**
 * Real brokers for these tests: each with a folder and ports of its own on loopback, to be killed, frozen and started again
 * on what it has written. What is not installed is skipped, loudly.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const RABBIT = '/usr/lib/rabbitmq/bin/rabbitmq-server';
const PROBES = {
  nats: ['nats-server', '--version'],
  redis: ['redis-server', '--version'],
  rabbitmq: [RABBIT, ''],
  kafka: ['kcat', '-V'],
} as const;
const PACKAGES = {
  nats: 'nats-server',
  redis: 'redis-server',
  rabbitmq: 'rabbitmq-server',
  kafka: 'kcat',
} as const;
export type BrokerName = keyof typeof PROBES;

/** Says so if it is missing. */
export function isInstalled(name: BrokerName): boolean {
  const [command, flag] = PROBES[name];
  const found = flag === '' ? spawnSync('test', ['-x', command]) : spawnSync(command, [flag]);
  if (found.status === 0) return true;
  console.error(
    `*** ${name}: SKIPPED, there is no ${command} (apt-get install ${PACKAGES[name]}) ***`,
  );
  return false;
}

export interface Broker {
  readonly port: number;
  /** As a crash of the machine would. What is written stays. */
  kill(): Promise<void>;
  /** On the same port and the same folder. */
  start(): Promise<void>;
  signal(name: 'SIGSTOP' | 'SIGCONT'): void;
  /** For good. */
  stop(): Promise<void>;
}

export function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as { port: number };
      probe.close(() => resolve(port));
    });
  });
}

/** Ends a process, or a group of them, if this process is killed. Returns what ends the watch. */
export function watchOver(pid: number, folder = ''): () => void {
  // The pipe closes with this process, whatever became of it. A frozen process can be killed, and not end by itself.
  const script = 'read _; kill -s KILL -- "$1"; [ -z "$2" ] || rm -rf "$2"';
  const watcher = spawn('sh', ['-c', script, 'sh', `${pid}`, folder], {
    ...{ stdio: ['pipe', 'ignore', 'ignore'], detached: true },
  });
  watcher.unref();
  return () => void watcher.kill('SIGKILL');
}

interface Start {
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

interface Server {
  readonly child: ChildProcess;
  signal(name: NodeJS.Signals): void;
  kill(): Promise<void>;
}

/** In a group of its own: rabbitmq-server is a script that starts the broker. */
function spawnServer(folder: string, { command, args, env }: Start): Server {
  const child = spawn(command, args, {
    ...{ cwd: folder, env: { ...process.env, ...env } },
    ...{ stdio: ['ignore', 'ignore', 'pipe'], detached: true },
  });
  const group = -(child.pid as number);
  const unwatch = watchOver(group, folder);
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  void ended.then(unwatch);
  const signal = (name: NodeJS.Signals) => {
    if (child.exitCode === null && child.signalCode === null) process.kill(group, name);
  };
  return {
    ...{ child, signal },
    async kill() {
      signal('SIGKILL');
      await ended;
    },
  };
}

/** Until it takes connections, or has ended. */
async function untilListening(port: number, { child }: Server): Promise<void> {
  for (;;) {
    if (child.exitCode !== null) throw new Error(`the broker ended with ${child.exitCode}`);
    const open = await new Promise<boolean>((resolve) => {
      const socket = connect(port, '127.0.0.1');
      socket.once('connect', () => {
        socket.destroy();
        resolve(true);
      });
      socket.once('error', () => resolve(false));
    });
    if (open) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const newFolder = () => mkdtempSync(join(tmpdir(), 'holdfast-broker-'));

/** `folder`: of its own, and gone with it. */
async function startServer(
  describe: (port: number, folder: string) => Start,
  { folder = newFolder(), beside = async () => {} } = {},
): Promise<Broker> {
  const port = await freePort();
  const start = describe(port, folder);
  let server: Server;
  const broker: Broker = {
    port,
    async start() {
      server = spawnServer(folder, start);
      server.child.stderr?.resume();
      await untilListening(port, server);
    },
    kill: () => server.kill(),
    signal: (name) => server.signal(name),
    async stop() {
      await broker.kill();
      await beside();
      rmSync(folder, { recursive: true, force: true });
    },
  };
  await broker.start();
  return broker;
}

export const startNats = () =>
  startServer((port, folder) => ({
    command: 'nats-server',
    args: ['-a', '127.0.0.1', '-p', `${port}`, '-js', '-sd', folder],
  }));

export const startRedis = () =>
  startServer((port, folder) => ({
    command: 'redis-server',
    args: [
      ...['--port', `${port}`, '--bind', '127.0.0.1', '--dir', folder, '--save', ''],
      ...['--appendonly', 'yes', '--appendfsync', 'always'],
      // As low as it goes: how Redis refuses is what is tried.
      ...['--proto-max-bulk-len', '1mb'],
    ],
  }));

/** The daemon by which Erlang finds its nodes. One that RabbitMQ starts by itself outlives everybody. */
async function startEpmd(port: number, folder: string): Promise<Server> {
  const args = ['-address', '127.0.0.1', '-port', `${port}`];
  const epmd = spawnServer(folder, { command: 'epmd', args });
  epmd.child.stderr?.resume();
  await untilListening(port, epmd);
  return epmd;
}

export async function startRabbit(): Promise<Broker> {
  const folder = newFolder();
  const [epmdPort, dist] = [await freePort(), await freePort()];
  const epmd = await startEpmd(epmdPort, folder);
  const describe = (port: number) => ({
    command: RABBIT,
    args: [],
    env: {
      HOME: folder,
      RABBITMQ_NODENAME: `holdfast${port}@localhost`,
      RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
      RABBITMQ_NODE_PORT: `${port}`,
      RABBITMQ_DIST_PORT: `${dist}`,
      ERL_EPMD_PORT: `${epmdPort}`,
      ERL_EPMD_ADDRESS: '127.0.0.1',
      RABBITMQ_MNESIA_BASE: join(folder, 'mnesia'),
      RABBITMQ_LOG_BASE: join(folder, 'log'),
      RABBITMQ_CONFIG_FILE: join(folder, 'none'),
      RABBITMQ_CONF_ENV_FILE: join(folder, 'none.conf'),
      RABBITMQ_ENABLED_PLUGINS_FILE: join(folder, 'plugins'),
      RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: '+S 1:1',
    },
  });
  return startServer(describe, { folder, beside: () => epmd.kill() });
}

/** A TCP proxy that knows no protocol: it can keep answers to itself and cut, as a network does. */
export async function startWire(target: number) {
  let mute = false;
  const open = new Set<() => void>();
  const server = createServer((client) => {
    const upstream = connect(target, '127.0.0.1');
    const close = () => {
      open.delete(close);
      client.destroy();
      upstream.destroy();
    };
    open.add(close);
    for (const socket of [client, upstream]) {
      socket.setNoDelay(true);
      socket.on('error', () => undefined);
      socket.on('close', close);
    }
    client.on('data', (chunk) => upstream.write(chunk));
    upstream.on('data', (chunk) => {
      if (!mute) client.write(chunk);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as { port: number }).port,
    /** What the broker says from now on is lost; what it is told arrives. */
    mute() {
      mute = true;
    },
    /** Cuts all connections; new ones work. */
    cut() {
      mute = false;
      for (const close of [...open]) close();
    },
    async stop() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const close of [...open]) close();
      await closed;
    },
  };
}

/** Of a Kafka broker of these tests: on a larger request it closes the connection. */
export const MAX_REQUEST = 200_000;

/**
 * librdkafka's mock cluster, which lives in the process of a consumer: the real protocol, and a broker that keeps records in
 * memory only. It can be frozen, and not be killed.
 */
export async function startKafkaMock(): Promise<Broker> {
  const folder = newFolder();
  const settings = [
    ...['test.mock.num.brokers=1', `receive.message.max.bytes=${MAX_REQUEST}`],
    ...['message', 'fetch', 'fetch.message'].map((what) => `${what}.max.bytes=${MAX_REQUEST / 2}`),
  ];
  const args = ['-C', '-b', 'mock:1', '-t', 'keep', '-d', 'mock'];
  for (const setting of settings) args.push('-X', setting);
  const server = spawnServer(folder, { command: 'kcat', args });
  let said = '';
  const port = await new Promise<number>((resolve, reject) => {
    server.child.stderr?.on('data', (text) => {
      if (said.length < 10_000) said += text;
      const found = /bootstrap\.servers=127\.0\.0\.1:(\d+)/.exec(said);
      if (found) resolve(Number(found[1]));
    });
    server.child.once('exit', (code) => reject(new Error(`kcat ended with ${code}: ${said}`)));
  });
  const stop = async () => {
    await server.kill();
    rmSync(folder, { recursive: true, force: true });
  };
  return {
    ...{ port, kill: stop, stop },
    start: () => Promise.reject(new Error('a mock cluster forgets all: it cannot start again')),
    signal: server.signal,
  };
}
