// Whether a worker was alive, by what the processes wrote down themselves: the registry is the engine's own, and a bug
// that declares the living dead writes it there, too. Each worker asks the database a small question again and again, on
// its own line. Whoever got every answer for twice the time to live was not frozen, not cut off and not gone.
import { pidOf } from './witness.mjs';

/** Twice the time to live of the torture's workers (`ttl` in world.mjs): a recovery comes some time after the verdict. */
const ALIVE_MS = 6_000;
/** From one answer to the next; a machine that is busier than that proves nothing. */
const GAP_MS = 1_000;

/** @returns {(owner: string, wallMs: number) => boolean} */
export function alivenessOf(history, { wallOffset }) {
  const lives = new Map();
  const of = (pid) => {
    if (!lives.has(pid)) lives.set(pid, { ids: [], probes: [], leaves: Number.POSITIVE_INFINITY });
    return lives.get(pid);
  };
  for (const { op, phase, pid, child, id, signal, t } of history) {
    if (op === 'worker' && phase === 'ok') of(pid).ids.push({ id, t });
    else if (op === 'probe') of(pid).probes.push({ ok: phase === 'ok', t });
    // It says itself that it did not reach the database, as when its keeper got no answer in time.
    else if (op === 'error') of(pid).probes.push({ ok: false, t });
    // Whoever was told to stop, or has ended, may be gone from then on.
    else if ((op === 'signal' && signal !== 'SIGSTOP') || (op === 'process' && phase === 'note'))
      of(child).leaves = Math.min(of(child).leaves, t);
  }
  return (owner, wallMs) => {
    const at = wallMs - wallOffset;
    const life = lives.get(pidOf(owner));
    if (!life || life.leaves <= at) return false;
    // A worker that was frozen comes back under another id, and the former one is dead.
    if (life.ids.findLast(({ t }) => t <= at)?.id !== owner) return false;
    return answered(life.probes, at - ALIVE_MS, at);
  };
}

/** All questions between these moments, none of them long after the one before. */
function answered(probes, from, to) {
  const first = probes.findLastIndex(({ t }) => t <= from);
  if (first === -1) return false;
  let last = probes[first];
  for (const probe of probes.slice(first)) {
    if (!probe.ok || probe.t - last.t > GAP_MS) return false;
    last = probe;
    if (probe.t >= to) return true;
  }
  return false;
}
