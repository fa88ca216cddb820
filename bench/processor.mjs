// How much processor time a process has used, and Postgres, all of its processes together: those
// that live, from their own counters, and those that have ended, from the counter that the main
// process keeps of its children.
import { readdirSync, readFileSync } from 'node:fs';

/** Linux counts in hundredths of a second, on every machine that Node runs on. */
const TICK_MS = 10;

/**
 * The scheduler's own count of one thread, in nanoseconds, where the kernel keeps one: of twenty
 * processes that each used a little, ticks would lose a good part.
 */
function exactMs(pid) {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
  } catch {
    return null;
  }
}

function counters(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name in brackets may hold spaces; what follows it does not.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const [parent, user, system, childUser, childSystem] = [1, 11, 12, 13, 14].map((at) =>
      Number(fields[at]),
    );
    return { parent, ownMs: (user + system) * TICK_MS, children: childUser + childSystem };
  } catch {
    return null;
  }
}

/**
 * Of all processes of the machine, and what the host took from it: whoever knows his own part knows
 * how much others disturb. Null where there is no /proc.
 */
export function machineCpuMs() {
  try {
    const [line] = readFileSync('/proc/stat', 'utf8').split('\n');
    const [user, nice, system, , , irq, softirq, steal] = line.split(/ +/).slice(1).map(Number);
    return (user + nice + system + irq + softirq + steal) * TICK_MS;
  } catch {
    return null;
  }
}

/** Of one process with all its threads. Null: it is gone, or there is no /proc. */
export const processCpuMs = (pid) => counters(pid)?.ownMs ?? null;

/** Of a process with one thread, as those of Postgres are. Null: it is gone, or there is no /proc. */
export const backendCpuMs = (pid) => exactMs(pid) ?? processCpuMs(pid);

/** Null where there is no /proc. */
export function postgresCpuMs(postmaster) {
  for (;;) {
    const main = counters(postmaster);
    if (!main) return null;
    let ms = (exactMs(postmaster) ?? main.ownMs) + main.children * TICK_MS;
    for (const name of readdirSync('/proc')) {
      if (!/^\d+$/.test(name)) continue;
      const process = counters(name);
      if (process?.parent === postmaster) ms += exactMs(name) ?? process.ownMs;
    }
    // One that ended between the two readings was counted neither here nor there.
    if (counters(postmaster)?.children === main.children) return ms;
  }
}
