// Repetitions, interleaved: every participant once, then every participant again, so that a slow
// moment of the machine meets all of them. And what is read from the results.
import { median, plain } from './statistics.mjs';

/** BullMQ takes each job by itself; a part of the jobs tells its rate and its cost. */
export const jobsFor = ({ system }, jobs) =>
  system.package === 'bullmq' ? Math.ceil(jobs / 20) : jobs;

/** Runs `measure(entry)` for each entry in turn, `count` times; label → values. */
export async function rounds(entries, count, measure) {
  const values = new Map(entries.map(({ label }) => [label, []]));
  for (let round = 0; round < count; round++) {
    for (const entry of entries) {
      const value = await measure(entry, round);
      if (value !== null) values.get(entry.label).push(value);
    }
  }
  return values;
}

/**
 * The peer with the highest median, or the lowest: `{ label, value }`, or null when none has one.
 */
export function bestPeer(values, entries, { lowest = false, postgresOnly = false } = {}) {
  const peers = entries
    .filter(({ ours, system }) => !ours && (!postgresOnly || system.postgres))
    .map(({ label }) => ({ label, all: values.get(label) ?? [] }))
    .filter(({ all }) => all.length > 0)
    .map(({ label, all }) => ({ label, value: median(all) }));
  peers.sort((a, b) => (lowest ? a.value - b.value : b.value - a.value));
  return peers[0] ?? null;
}

/** A figure `OURS / PEER`, at least so many times. */
export function times(figure, name, ours, peer, goal) {
  if (!peer || !(peer.value > 0)) {
    figure(name, 'no peer was measured', `>= ${goal} x`, false);
    return;
  }
  const ratio = ours / peer.value;
  figure(
    name,
    `${ratio.toFixed(2)} x (${plain(ours)} against ${plain(peer.value)} of ${peer.label})`,
    `>= ${goal} x`,
    ratio >= goal,
  );
}

/**
 * Where the best peer may be one on Redis: the ratio to the best on Postgres too, without a goal.
 */
export function besideRedis(fact, name, ours, values, entries) {
  if (entries.every(({ system }) => system.postgres)) return;
  const peer = bestPeer(values, entries, { postgresOnly: true });
  if (peer?.value > 0)
    fact(name, `${(ours / peer.value).toFixed(2)} x (${plain(peer.value)} of ${peer.label})`);
}

export function share(figure, name, part, whole, goal) {
  const value = part / whole;
  figure(
    name,
    `${(value * 100).toFixed(0)}% (${plain(part)} of ${plain(whole)})`,
    `>= ${(goal * 100).toFixed(0)}%`,
    value >= goal,
  );
}

export const bars = (values, entries) =>
  entries
    .filter(({ label }) => (values.get(label) ?? []).length > 0)
    .map(({ label, ours }) => ({ label, ours, value: median(values.get(label)) }));
