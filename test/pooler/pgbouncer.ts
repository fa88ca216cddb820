/**
 * PgBouncer for a test file: the configuration that docs/poolers.md prints, with the addresses, paths and
 * settings of the test in it, on a free port of the loopback. It does not run as root, so under root it
 * runs as the account that also runs the embedded server.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { serverAccount } from '../../packages/embedded/src/server/account.js';
import { freePort } from '../../packages/embedded/src/server/port.js';
import { documentationBlocks } from '../support/doc-blocks.js';
import { until } from '../support/until.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Debian installs it where only root looks. */
const PATH = `${process.env.PATH}:/usr/sbin:/usr/local/sbin`;

export interface Pooler {
  /** The same database and user, through the pooler. */
  through(url: string): string;
  /** SIGKILL, as a crash; `start` brings it back on the same port. */
  kill(): Promise<void>;
  start(): Promise<void>;
  stop(): Promise<void>;
}

export function assertInstalled(): void {
  const { status, stdout } = spawnSync('pgbouncer', ['--version'], {
    env: { ...process.env, PATH },
    encoding: 'utf8',
  });
  if (status === 0 && /PgBouncer 1\./.test(stdout)) return;
  throw new Error(
    'PgBouncer was not found, so nothing was tested. Install it (on Debian: apt-get install pgbouncer) ' +
      'and run `npm run test:pooler` again.',
  );
}

function printedConfiguration(): string {
  const block = documentationBlocks(ROOT).find(
    ({ page, section }) => page === join('docs', 'poolers.md') && section === 'pgbouncer.ini',
  );
  if (!block) throw new Error('docs/poolers.md prints no pgbouncer.ini');
  return block.code;
}

/** The text with some of its settings changed, and those that it has not added at the end. */
function configured(text: string, settings: Readonly<Record<string, string>>): string {
  const left = { ...settings };
  const lines = text.split('\n').map((line) => {
    const name = /^(\S+) = /.exec(line)?.[1] ?? '';
    if (!(name in left)) return line;
    const changed = `${name} = ${left[name]}`;
    delete left[name];
    return changed;
  });
  return [...lines, ...Object.entries(left).map(([name, value]) => `${name} = ${value}`), ''].join(
    '\n',
  );
}

export async function startPgbouncer(
  serverUrl: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<Pooler> {
  assertInstalled();
  const server = new URL(serverUrl);
  const account = serverAccount();
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-pgbouncer-'));
  const users = join(folder, 'userlist.txt');
  const file = join(folder, 'pgbouncer.ini');
  const port = await freePort();
  const text = configured(printedConfiguration(), {
    '*': `host=${server.hostname} port=${server.port || 5432}`,
    listen_port: String(port),
    auth_file: users,
    unix_socket_dir: '',
    default_pool_size: '10',
    ...settings,
  });
  writeFileSync(file, text);
  const [user, password] = [server.username, server.password].map(decodeURIComponent);
  writeFileSync(users, `"${user}" "${password}"\n`);
  chmodSync(folder, 0o700);
  if (account.steppedDown) {
    for (const path of [folder, file, users]) chownSync(path, account.uid, account.gid);
  }

  let child: ChildProcess | null = null;
  const end = async (signal: NodeJS.Signals) => {
    const ending = child;
    child = null;
    if (ending?.exitCode !== null || ending.signalCode !== null) return;
    const ended = new Promise((resolve) => ending.once('exit', resolve));
    ending.kill(signal);
    await ended;
  };
  const start = async () => {
    child = await launch(file, account);
  };
  await start();
  return {
    through(url) {
      const changed = new URL(url);
      changed.hostname = '127.0.0.1';
      changed.port = String(port);
      return changed.toString();
    },
    start,
    kill: () => end('SIGKILL'),
    async stop() {
      await end('SIGINT');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function launch(file: string, account: ReturnType<typeof serverAccount>) {
  const child = spawn('pgbouncer', [file], {
    env: { ...process.env, PATH },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(account.steppedDown && { uid: account.uid, gid: account.gid }),
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (data) => {
      said = (said + data).slice(-4_000);
    });
  }
  await until('PgBouncer listens', () => {
    if (child.exitCode !== null) throw new Error(`PgBouncer did not start:\n${said}`);
    return /process up/.test(said);
  });
  return child;
}
