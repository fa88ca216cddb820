// Two servers, a primary and a streaming standby, that change roles: the primary is killed, the standby is promoted,
// and a new standby is made from a backup of it. The binaries are those of the embedded server, which have no
// pg_basebackup; a backup is a copy of the files between pg_backup_start and pg_backup_stop.
import { spawnSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { prepareBinaries } from '../packages/embedded/dist/cluster/binaries.js';
import { startEmbedded } from '../packages/embedded/dist/index.js';
import { settingArguments } from '../packages/embedded/dist/options.js';
import { serverAccount } from '../packages/embedded/dist/server/account.js';
import { freePort } from '../packages/embedded/dist/server/port.js';
import { supervise } from '../packages/embedded/dist/server/supervisor.js';
import { lostBetween } from './lost.mjs';
import { childrenOf, sqlUntil } from './server.mjs';

const SETTINGS = { wal_keep_size: '1GB', max_wal_senders: 5, hot_standby: 'on' };
const STANDBY = 'standby';

/** A copy of a running server's files from which a standby can start. */
async function backUp(primary, dataDir) {
  const client = new pg.Client({ connectionString: primary.url });
  client.on('error', () => {});
  await client.connect();
  try {
    await client.query(`SELECT pg_backup_start('torture', true)`);
    // Files come and go meanwhile; what is missing is in the WAL.
    const from = primary.dataDir;
    spawnSync('sh', ['-c', `cp -a "${from}" "${dataDir}" 2>/dev/null`]);
    const { rows } = await client.query('SELECT labelfile FROM pg_backup_stop(false)');
    for (const file of ['postmaster.pid', 'postmaster.opts', 'standby.signal'])
      rmSync(join(dataDir, file), { force: true });
    rmSync(join(dataDir, 'pg_wal'), { recursive: true, force: true });
    mkdirSync(join(dataDir, 'pg_wal'), { mode: 0o700 });
    writeFileSync(join(dataDir, 'backup_label'), rows[0].labelfile);
    writeFileSync(join(dataDir, 'standby.signal'), '');
    // Who is synchronous is the primary's business.
    writeFileSync(join(dataDir, 'postgresql.auto.conf'), '');
    const { uid, gid, steppedDown } = serverAccount();
    if (steppedDown) spawnSync('chown', ['-R', `${uid}:${gid}`, dataDir]);
  } finally {
    await client.end().catch(() => {});
  }
}

async function startNode(folder, dataDir, primary) {
  const account = serverAccount();
  const port = await freePort();
  const { username, password, port: primaryPort } = new URL(primary.url);
  const conninfo = `host=127.0.0.1 port=${primaryPort} user=${username} password=${password} application_name=${STANDBY}`;
  const log = openSync(join(folder, `${port}.log`), 'a');
  const command = [
    ...[prepareBinaries(account).postgres, '-D', dataDir],
    ...settingArguments({ ...SETTINGS, primary_conninfo: conninfo }, port),
  ];
  const supervised = await supervise({ account, command, log });
  const url = new URL(primary.url);
  url.port = String(port);
  await sqlUntil(url.href, 'SELECT 1');
  const pid = Number(readFileSync(join(dataDir, 'postmaster.pid'), 'utf8').split('\n')[0]);
  return { url: url.href, dataDir, pid, stop: () => supervised.end('immediate') };
}

/** Nobody is left who works on these files; the backends of a killed postmaster take a moment. */
async function abandoned(dataDir) {
  const works = (pid) => {
    try {
      return readlinkSync(`/proc/${pid}/cwd`) === dataDir;
    } catch {
      return false;
    }
  };
  while (readdirSync('/proc').some((name) => /^\d+$/.test(name) && works(name))) await sleep(50);
}

/** Waits until the standby has what the primary has flushed by now. */
async function received(standby, primary) {
  const [{ lsn }] = await sqlUntil(primary.url, 'SELECT pg_current_wal_flush_lsn()::text AS lsn');
  for (let tries = 0; tries < 300; tries++) {
    const text = 'SELECT pg_last_wal_receive_lsn() >= $1::pg_lsn AS has';
    if ((await sqlUntil(standby.url, text, [lsn]))[0].has) return;
    await sleep(100);
  }
  throw new Error('the standby does not follow');
}

/** @param {{ synchronous: boolean }} mode */
export function pairOf({ synchronous }) {
  return async (settings) => {
    const first = await startEmbedded({ throwaway: true, settings: { ...SETTINGS, ...settings } });
    const folder = mkdtempSync(join(tmpdir(), 'torture-pair-'));
    const { uid, gid, steppedDown } = serverAccount();
    if (steppedDown) spawnSync('chown', [`${uid}:${gid}`, folder]);
    let primary = {
      url: first.url,
      dataDir: first.dataDir,
      pid: first.pid,
      stop: () => first.stop(),
    };
    let standby = null;
    let nodes = 0;
    let turn = Promise.resolve();

    async function addStandby() {
      const dataDir = join(folder, `node-${++nodes}`);
      await backUp(primary, dataDir);
      standby = await startNode(folder, dataDir, primary);
      if (synchronous) {
        await sqlUntil(primary.url, `ALTER SYSTEM SET synchronous_standby_names = '${STANDBY}'`);
        await sqlUntil(primary.url, 'SELECT pg_reload_conf()');
      }
      const wanted = synchronous ? 'sync' : 'async';
      for (let tries = 0; tries < 300; tries++) {
        const [row] = await sqlUntil(
          primary.url,
          'SELECT state, sync_state FROM pg_stat_replication',
        );
        if (row?.state === 'streaming' && row.sync_state === wanted) return;
        await sleep(100);
      }
      throw new Error('the standby does not follow');
    }
    await addStandby();

    /** The files of the dead primary say exactly what it had: it is started once more, for nobody else. */
    async function readLost(old, since) {
      await abandoned(old.dataDir);
      const node = await startNode(folder, old.dataDir, old);
      try {
        return await lostBetween(node.url, primary.url, since);
      } finally {
        await node.stop();
      }
    }

    return {
      get url() {
        return primary.url;
      },
      get pid() {
        return primary.pid;
      },
      exclusive(work) {
        const mine = turn.then(work);
        turn = mine.catch(() => {});
        return mine;
      },
      /** Lets the standby fall behind until the primary dies: what was not sent to it is lost. */
      async lag(ms) {
        await received(standby, primary);
        const sender = childrenOf(primary.pid).find((pid) =>
          /walsender/.test(readFileSync(`/proc/${pid}/cmdline`, 'utf8')),
        );
        if (!sender) return;
        process.kill(Number(sender), 'SIGSTOP');
        await sleep(ms);
        // It must not outlive the primary and send the rest.
        process.kill(primary.pid, 'SIGSTOP');
        process.kill(Number(sender), 'SIGKILL');
      },
      /** `moved` is called with the new address, before the new primary takes writes. */
      async failOver(moved) {
        const old = primary;
        process.kill(old.pid, 'SIGKILL');
        moved(standby.url);
        return {
          /** Returns what the old primary had committed since then and the new one does not have. */
          async promote(since = null) {
            await sqlUntil(standby.url, 'SELECT pg_promote(true, 60)');
            primary = standby;
            standby = null;
            const lost = since === null ? null : await readLost(old, since);
            await old.stop().catch(() => {});
            if (old.dataDir.startsWith(folder))
              rmSync(old.dataDir, { recursive: true, force: true });
            await addStandby();
            return lost;
          },
        };
      },
      async stop() {
        await standby?.stop();
        await primary.stop();
        if (primary.dataDir !== first.dataDir) await first.stop().catch(() => {});
        rmSync(folder, { recursive: true, force: true });
      },
    };
  };
}
