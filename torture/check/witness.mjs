// What the database accepted, by the witness: generations rise one by one, leases do not overlap, and nobody but the
// owner, under a live lease, settles or renews. This holds after a lossy failover as well: the witness is in
// the database that took over, and knows of nothing that was lost.
import { groupBy } from './acceptance.mjs';

/** A worker's id has its process id in it. */
export const pidOf = (owner) => Number(owner?.split('-').at(-2));

const madeBy = (name) => Number(/^torture-(\d+)$/.exec(name ?? '')?.[1]);

/** The changes of ownership of each job, in the order in which the database made them. */
export function* witnessed(witness, wasAlive) {
  for (const changes of groupBy(witness, ({ job }) => job).values()) {
    const life = { generation: 0, over: false };
    for (const change of changes) {
      const what = `job ${change.job}, generation ${change.generation}`;
      if (life.over) yield `${what}: ${change.kind} after it was gone`;
      for (const why of broken(change, life, wasAlive)) yield `${what}: ${why}`;
    }
  }
}

function* broken(change, life, wasAlive) {
  const { kind, generation, was_status, was_owner, was_expired } = change;
  if (kind === 'enqueued') return;
  yield* foreign(change);
  if (kind === 'claimed') {
    if (generation !== life.generation + 1) yield `claimed after generation ${life.generation}`;
    life.generation = generation;
    if (was_status === 'processing' ? !was_expired : was_status !== 'pending')
      yield was_status === 'processing'
        ? `claimed by ${change.owner} under the live lease of ${was_owner}`
        : `claimed by ${change.owner} while ${was_status}`;
  } else if (kind === 'renewed') {
    if (was_expired) yield `renewed by ${was_owner} after its lease was over`;
  } else if (change.crashed) {
    if (!was_expired && wasAlive(was_owner, change.at))
      yield `recovered from ${was_owner}, which is alive and has a live lease`;
  } else if (was_status !== 'processing') yield `${kind} while ${was_status}`;
  // A worker may hand back what it claimed and never heard of, late as well; nothing else.
  else if (was_expired && (kind !== 'pending' || change.outcome))
    yield `${change.outcome ?? kind} by ${was_owner} after its lease was over`;
  if (kind === 'gone') life.over = true;
}

/** Made by a session of somebody else: a write from a lease that is not the one that it changes. */
function* foreign({ kind, owner, was_owner, crashed, made_by }) {
  const rightful = kind === 'claimed' ? owner : was_owner;
  // Whoever maintains the queue recovers what the dead held.
  if (crashed && kind !== 'claimed') return;
  if (madeBy(made_by) !== pidOf(rightful))
    yield `${kind}, of ${rightful}, by a session of somebody else (${made_by})`;
}
