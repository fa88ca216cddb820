// How much processor time Postgres has used, all of its processes together: those that live, from
// their own counters, and those that have ended, from the counter that the main process keeps of
// its children.
import { readdirSync, readFileSync } from 'node:fs';

/** Linux counts in hundredths of a second, on every machine that Node runs on. */
const TICK_MS = 10;

function counters(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name in brackets may hold spaces; what follows it does not.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const [parent, user, system, childUser, childSystem] = [1, 11, 12, 13, 14].map((at) =>
      Number(fields[at]),
    );
    return { parent, own: user + system, children: childUser + childSystem };
  } catch {
    return null;
  }
}

/** Null where there is no /proc. */
export function postgresCpuMs(postmaster) {
  for (;;) {
    const main = counters(postmaster);
    if (!main) return null;
    let ticks = main.own + main.children;
    for (const name of readdirSync('/proc')) {
      if (!/^\d+$/.test(name)) continue;
      const process = counters(name);
      if (process?.parent === postmaster) ticks += process.own;
    }
    // One that ended between the two readings was counted neither here nor there.
    if (counters(postmaster)?.children === main.children) return ticks * TICK_MS;
  }
}
