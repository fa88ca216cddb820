// Order per key: a job is claimed only when all earlier jobs of its key have left, or together with them by the same
// worker; jobs leave in their order; and the attempt that counted began after the one before it had ended.
import { groupBy } from './acceptance.mjs';
import { pidOf } from './ownership.mjs';

export function checkOrder({ history, state }, queue = 'lines') {
  const violations = [];
  const witness = state.witness.filter((change) => change.queue === queue);
  for (const [key, changes] of groupBy(witness, (change) => change.key))
    violations.push(...claims(key, changes));
  violations.push(...attempts(history, state, queue));
  return { violations, counts: { keys: new Set(witness.map(({ key }) => key)).size } };
}

/** By the witness: what stood before a job in its key when it was claimed, and when it left. */
function* claims(key, changes) {
  /** Jobs that have not left: position and owner. */
  const waiting = new Map();
  for (const { kind, job, position, owner, generation } of byTransaction(changes)) {
    if (kind === 'enqueued') waiting.set(job, { position, owner: null });
    const own = waiting.get(job);
    if (!own) continue;
    const earlier = [...waiting].filter(([, other]) => other.position < own.position);
    if (kind === 'claimed') {
      for (const [other, { owner: holder }] of earlier) {
        if (holder !== owner)
          yield `${key}: job ${job} (generation ${generation}) was claimed by ${owner} while ${other} before it was ${holder ? `held by ${holder}` : 'waiting'}`;
      }
      own.owner = owner;
    } else if (kind === 'gone' || kind === 'dead_letter') {
      for (const [other] of earlier)
        yield `${key}: job ${job} left before ${other}, which stands before it`;
      waiting.delete(job);
    } else if (kind === 'pending') own.owner = null;
  }
}

/** What one transaction did happened at once, in the order of the key, whichever row it touched first. */
function byTransaction(changes) {
  const first = new Map();
  for (const { tx, seq } of changes) if (!first.has(tx)) first.set(tx, seq);
  return changes.toSorted((a, b) => first.get(a.tx) - first.get(b.tx) || a.position - b.position);
}

/** By the histories: the accepted attempts of a key do not overlap and come in order. */
function* attempts(history, state, queue) {
  const accepted = new Map(
    state.jobs
      .filter((job) => job.queue === queue && job.status === 'completed')
      .map((job) => [`${job.id}/${job.generation}`, job]),
  );
  const spans = new Map();
  for (const { op, phase, job, gen, t, pid } of history) {
    if (op !== 'run') continue;
    const row = accepted.get(`${job}/${gen}`);
    if (!row || pidOf(row.owner) !== pid) continue;
    const span = spans.get(row.id) ?? { job: row, from: null, to: null };
    if (phase === 'invoke') span.from = t;
    else span.to = t;
    spans.set(row.id, span);
  }
  for (const [key, line] of groupBy([...spans.values()], ({ job }) => job.key)) {
    line.sort((a, b) => a.job.payload.n - b.job.payload.n);
    for (let at = 1; at < line.length; at++) {
      const [before, after] = [line[at - 1], line[at]];
      // A transactional handler commits before its process knows, and one that was killed never writes it down.
      const end = before.job.type === 'guarded' ? before.from : (before.to ?? before.from);
      if (after.from < end)
        yield `${key}: ${after.job.payload.n} began ${(end - after.from).toFixed(1)} ms before ${before.job.payload.n} had ended`;
    }
  }
}
