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

/** Until it takes connections, or has ended. */
async function untilListening(port: number, child: ChildProcess): Promise<void> {
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

interface Start {
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** After it is gone for good. */
  readonly end?: () => void;
}

async function startServer(describe: (folder: string, port: number) => Promise<Start>) {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-broker-'));
  const port = await freePort();
  const { command, args, env, end } = await describe(folder, port);
  let child: ChildProcess;
  let ended: Promise<unknown>;
  const broker: Broker = {
    port,
    async start() {
      // A group of its own: rabbitmq-server is a script that starts the broker.
      child = spawn(command, args, {
        cwd: folder,
        env: { ...process.env, ...env },
        stdio: 'ignore',
        detached: true,
      });
      ended = new Promise((resolve) => child.once('exit', resolve));
      await untilListening(port, child);
    },
    async kill() {
      if (child.exitCode === null && child.signalCode === null)
        process.kill(-(child.pid as number), 'SIGKILL');
      await ended;
    },
    signal: (name) => void process.kill(-(child.pid as number), name),
    async stop() {
      await broker.kill();
      end?.();
      rmSync(folder, { recursive: true, force: true });
    },
  };
  process.once('exit', () => {
    if (child?.exitCode === null && child.signalCode === null)
      process.kill(-(child.pid as number), 'SIGKILL');
  });
  await broker.start();
  return broker;
}

export const startNats = () =>
  startServer(async (folder, port) => ({
    command: 'nats-server',
    args: ['-a', '127.0.0.1', '-p', `${port}`, '-js', '-sd', folder],
  }));

export const startRedis = () =>
  startServer(async (folder, port) => ({
    command: 'redis-server',
    args: [
      ...['--port', `${port}`, '--bind', '127.0.0.1', '--dir', folder, '--save', ''],
      ...['--appendonly', 'yes', '--appendfsync', 'always'],
    ],
  }));

export const startRabbit = () =>
  startServer(async (folder, port) => {
    const [epmd, dist] = [await freePort(), await freePort()];
    return {
      command: RABBIT,
      args: [],
      env: {
        HOME: folder,
        RABBITMQ_NODENAME: `holdfast${port}@localhost`,
        RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
        RABBITMQ_NODE_PORT: `${port}`,
        RABBITMQ_DIST_PORT: `${dist}`,
        ERL_EPMD_PORT: `${epmd}`,
        ERL_EPMD_ADDRESS: '127.0.0.1',
        RABBITMQ_MNESIA_BASE: join(folder, 'mnesia'),
        RABBITMQ_LOG_BASE: join(folder, 'log'),
        RABBITMQ_CONFIG_FILE: join(folder, 'none'),
        RABBITMQ_CONF_ENV_FILE: join(folder, 'none.conf'),
        RABBITMQ_ENABLED_PLUGINS_FILE: join(folder, 'plugins'),
        RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: '+S 1:1',
      },
      // The daemon by which Erlang finds its nodes stays behind; it is on a port of ours.
      end: () => void spawnSync('epmd', ['-port', `${epmd}`, '-kill']),
    };
  });

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

/**
 * librdkafka's mock cluster, which lives in the process of a consumer: the real protocol, and a broker that keeps records in
 * memory only. It can be frozen, and not be killed.
 */
export async function startKafkaMock(): Promise<Broker> {
  const args = ['-C', '-b', 'mock:1', '-t', 'keep', '-X', 'test.mock.num.brokers=1', '-d', 'mock'];
  const child = spawn('kcat', args, { stdio: ['ignore', 'ignore', 'pipe'] });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  process.once('exit', () => child.kill('SIGKILL'));
  let said = '';
  const port = await new Promise<number>((resolve, reject) => {
    child.stderr.on('data', (text) => {
      if (said.length < 10_000) said += text;
      const found = /bootstrap\.servers=127\.0\.0\.1:(\d+)/.exec(said);
      if (found) resolve(Number(found[1]));
    });
    child.once('exit', (code) => reject(new Error(`kcat ended with ${code}: ${said}`)));
  });
  const stop = async () => {
    child.kill('SIGKILL');
    await ended;
  };
  return {
    ...{ port, kill: stop, stop },
    start: () => Promise.reject(new Error('a mock cluster forgets all: it cannot start again')),
    signal: (name) => void child.kill(name),
  };
}
