// Who uses the processors. A run that is slower than its own undisturbed part is slow for a reason of the engine, or
// because somebody else works on this machine: this tells the two apart.
import { readFileSync } from 'node:fs';
import { childrenOf } from './server.mjs';

/** Ticks of all processors since the machine's start: busy ones, and all. */
function machineTicks() {
  const fields = readFileSync('/proc/stat', 'utf8')
    .split('\n')[0]
    .split(/\s+/)
    .slice(1, 9)
    .map(Number);
  const all = fields.reduce((sum, ticks) => sum + ticks, 0);
  // idle and iowait
  return { all, busy: all - fields[3] - fields[4] };
}

/** Of a process, and of its children that have ended. */
function ticksOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return [11, 12, 13, 14].reduce((sum, n) => sum + Number(fields[n]), 0);
  } catch {
    return 0;
  }
}

function ownTicks(world) {
  const slots = world.fleet.slots.flatMap(({ pid }) => pid ?? []);
  const pids = [process.pid, world.server.pid, ...childrenOf(world.server.pid), ...slots];
  return pids.reduce((sum, pid) => sum + ticksOf(pid), 0);
}

/** From now until it is called: the share of the processors that others took, from 0 to 1. */
export function othersShare(world) {
  const [machine, own] = [machineTicks(), ownTicks(world)];
  return () => {
    const now = machineTicks();
    const busy = now.busy - machine.busy - Math.max(0, ownTicks(world) - own);
    return Math.min(1, Math.max(0, busy / Math.max(1, now.all - machine.all)));
  };
}
