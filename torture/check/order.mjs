// Order per key: a job is claimed only when all earlier jobs of its key have left, or together with them by the same
// worker; jobs leave in their order; and the attempt that counted began after the one before it had ended.
import { groupBy } from './acceptance.mjs';
import { pidOf } from './witness.mjs';

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

/**
 * By the histories: an attempt that the database accepted, as a completion or as a failure, began after the job before it
 * had run to its end.
 */
function* attempts(history, state, queue) {
  const jobs = new Map(state.jobs.filter((job) => job.queue === queue).map((job) => [job.id, job]));
  const failed = new Set(
    state.witness
      .filter((change) => change.queue === queue && change.outcome === 'failed')
      .map(({ job, generation, was_owner }) => `${job}/${generation}/${pidOf(was_owner)}`),
  );
  // Of a generation that a failover issued again, the last run is the one that counted.
  const starts = new Map();
  const ends = new Map();
  for (const { op, phase, job: id, gen, t, pid } of history) {
    const job = jobs.get(id);
    if (!job || (op !== 'run' && op !== 'body')) continue;
    const isStart = op === 'run' && phase === 'invoke';
    const isCounted =
      job.status === 'completed' && job.generation === gen && pidOf(job.owner) === pid;
    if (isStart && (isCounted || failed.has(`${id}/${gen}/${pid}`)))
      starts.set(`${id}/${gen}/${pid}`, { job, gen, t });
    // A transactional handler commits before its process writes down that it ended; its body has ended then.
    if (isCounted && (isStart || op === 'body' || (phase === 'ok' && job.type !== 'guarded')))
      ends.set(`${job.key}/${job.payload.n}`, t);
  }
  for (const { job, gen, t } of starts.values()) {
    const { key, payload } = job;
    const end = ends.get(`${key}/${payload.n - 1}`);
    if (end > t)
      yield `${key}: ${payload.n} (generation ${gen}) began ${(end - t).toFixed(1)} ms before ${payload.n - 1} had ended`;
  }
}
