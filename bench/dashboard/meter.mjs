// What the dashboard and its pages use of the processors: the dashboard's own process, its sessions in Postgres, and
// the pages. The pages run here and not on the machines of those who look, so they are counted apart.
import { availableParallelism } from 'node:os';
import { clock } from '../clock.mjs';
import { backendCpuMs, processCpuMs } from '../processor.mjs';

const SESSIONS = `SELECT pid FROM pg_stat_activity WHERE application_name = 'holdfast dashboard'`;

export const USERS = ['server', 'postgres', 'pages'];

/**
 * Begins to count. `read` now and then: a session that ends keeps what was read last. `end` gives the share of each in
 * per cent of all processors; not a number where there is no /proc.
 */
export async function startMeter(admin, { server, pages }) {
  const sessions = async () => (await admin.query(SESSIONS)).rows.map(({ pid }) => pid);
  const counted = new Map();
  const read = () => {
    for (const one of counted.values()) one.last = one.cpuMs(one.pid) ?? one.last;
  };
  const add = (user, pid, cpuMs, first = cpuMs(pid) ?? Number.NaN) => {
    if (!counted.has(pid)) counted.set(pid, { user, pid, cpuMs, first, last: first });
  };
  add('server', server.pid, processCpuMs);
  add('pages', pages.pid, processCpuMs);
  for (const pid of await sessions()) add('postgres', pid, backendCpuMs);
  const from = clock();
  return {
    read,
    async end() {
      const ms = (clock() - from) * availableParallelism();
      // One that was opened meanwhile counts from its birth.
      for (const pid of await sessions()) add('postgres', pid, backendCpuMs, 0);
      read();
      const used = (user) =>
        [...counted.values()]
          .filter((one) => one.user === user)
          .reduce((sum, { first, last }) => sum + last - first, 0);
      return Object.fromEntries(USERS.map((user) => [user, (used(user) * 100) / ms]));
    },
  };
}
