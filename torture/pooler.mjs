// PgBouncer in transaction mode between the lines and the server, from the system's packages. Its configuration is
// the one that docs/poolers.md prints, with the addresses of the run in it.
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { serverAccount } from '../packages/embedded/dist/server/account.js';
import { freePort } from '../packages/embedded/dist/server/port.js';

/** Debian installs it where only root looks. */
const PATH = `${process.env.PATH}:/usr/sbin:/usr/local/sbin`;
const PAGE = new URL('../docs/poolers.md', import.meta.url);

export function poolerMissing() {
  const { status } = spawnSync('pgbouncer', ['--version'], { env: { ...process.env, PATH } });
  return status === 0 ? null : 'PgBouncer was not found (Debian: apt-get install pgbouncer)';
}

function configuration(settings) {
  const [, printed] = /## pgbouncer\.ini[\s\S]*?```text\n([\s\S]*?)```/.exec(
    readFileSync(PAGE, 'utf8'),
  );
  return Object.entries(settings).reduce((text, [name, value]) => {
    const line = `${name} = ${value}`;
    const at = text.split('\n').find((one) => one.startsWith(`${name} = `));
    return at ? text.replace(at, line) : `${text}${line}\n`;
  }, printed);
}

export async function startPooler(serverUrl) {
  const server = new URL(serverUrl);
  const account = serverAccount();
  const folder = mkdtempSync(join(tmpdir(), 'torture-pgbouncer-'));
  const [file, users] = ['pgbouncer.ini', 'userlist.txt'].map((name) => join(folder, name));
  const port = await freePort();
  const settings = {
    '*': `host=${server.hostname} port=${server.port}`,
    listen_port: port,
    auth_file: users,
    unix_socket_dir: '',
    default_pool_size: 60,
  };
  writeFileSync(file, configuration(settings));
  writeFileSync(users, `"${server.username}" "${decodeURIComponent(server.password)}"\n`);
  chmodSync(folder, 0o700);
  if (account.steppedDown)
    for (const path of [folder, file, users]) chownSync(path, account.uid, account.gid);
  let child = null;
  const start = async () => {
    child = spawn('pgbouncer', [file], {
      env: { ...process.env, PATH },
      stdio: ['ignore', 'ignore', 'pipe'],
      ...(account.steppedDown && { uid: account.uid, gid: account.gid }),
    });
    await new Promise((resolve, reject) => {
      child.stderr.on('data', (data) => /process up/.test(String(data)) && resolve());
      child.once('exit', () => reject(new Error('PgBouncer did not start')));
    });
  };
  const end = async (signal) => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signal);
    await ended;
  };
  process.on('exit', () => child?.kill('SIGKILL'));
  await start();
  const through = new URL(serverUrl);
  through.port = String(port);
  return {
    url: through.href,
    reload: () => child.kill('SIGHUP'),
    freeze: () => child.kill('SIGSTOP'),
    thaw: () => child.kill('SIGCONT'),
    async crash() {
      await end('SIGKILL');
      await start();
    },
    async stop() {
      await end('SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
