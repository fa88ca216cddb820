// The machine that figures come from, described so that another one can be set beside it.
import { closeSync, fdatasyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { cpus, release, totalmem, type } from 'node:os';
import { join } from 'node:path';
import { clock } from '../clock.mjs';
import { median } from '../statistics.mjs';

/** Milliseconds to write a page to the database's disk and to have it there. */
function fsyncMs(folder) {
  const path = join(folder, 'holdfast-bench-fsync');
  const file = openSync(path, 'w');
  const page = Buffer.alloc(8_192, 1);
  const times = [];
  for (let n = 0; n < 100; n++) {
    const from = clock();
    writeSync(file, page, 0, page.length, n * page.length);
    fdatasyncSync(file);
    times.push(clock() - from);
  }
  closeSync(file);
  rmSync(path);
  return median(times);
}

async function setting(admin, name) {
  return (await admin.query(`SHOW ${name}`)).rows[0][name];
}

export async function describeMachine(admin, server, settings) {
  const sync = fsyncMs(server.dataDir);
  const asked = [
    'fsync',
    'synchronous_commit',
    'full_page_writes',
    'wal_sync_method',
    ...Object.keys(settings),
  ];
  const shown = [];
  for (const name of asked) shown.push(`${name} ${await setting(admin, name)}`);
  const processors = cpus();
  return {
    fsyncMs: sync,
    cores: processors.length,
    words: {
      processor: `${processors.length} × ${processors[0]?.model.trim()}`,
      memory: `${(totalmem() / 1024 ** 3).toFixed(1)} GiB`,
      disk: `8 kB written and synced in ${sync.toFixed(2)} ms (median of 100)`,
      system: `${type()} ${release()}`,
      node: process.version,
      postgres: `${server.version}: ${shown.join(', ')}`,
    },
  };
}
