// Effects: transactional ones exactly once, `once` ones at most once where the marker was written and never missing,
// children exactly once.
import { groupBy } from './acceptance.mjs';
import { lossesOf } from './failovers.mjs';
import { pidOf } from './witness.mjs';

const TRANSACTIONAL = ({ type, payload }) =>
  type === 'pay' || type === 'guarded' || (type === 'parent' && payload.inTransaction);

export function checkEffects({ history, state }) {
  const violations = [...transactional(state), ...once(history, state), ...children(state)];
  const repeated = [...groupBy(effectsOf(history), ({ job }) => job).values()].filter(
    ({ length }) => length > 1,
  );
  return {
    violations,
    counts: {
      transactionalEffects: state.effects.length,
      onceEffects: effectsOf(history).length,
      onceRepeatedBeforeMarker: repeated.length,
      children: state.jobs.filter(({ type }) => type === 'child').length,
    },
  };
}

function* transactional(state) {
  const effects = groupBy(state.effects, ({ job }) => job);
  for (const job of state.jobs.filter(TRANSACTIONAL)) {
    const found = effects.get(job.id) ?? [];
    effects.delete(job.id);
    const wanted = job.status === 'completed' ? 1 : 0;
    if (found.length !== wanted)
      yield `job ${job.id} (${job.type}, ${job.status}) has ${found.length} transactional effects`;
    else if (wanted && found[0].generation !== job.generation)
      yield `job ${job.id}: the effect is of generation ${found[0].generation}, the completion of ${job.generation}`;
  }
  for (const job of effects.keys())
    yield `a transactional effect of job ${job}, which does not exist`;
}

const effectsOf = (history) => history.filter(({ op, phase }) => op === 'effect' && phase === 'ok');

function* once(history, state) {
  const markers = new Map(state.markers.map((marker) => [marker.job, marker.generation]));
  const claimed = new Set(
    state.witness.flatMap(({ kind, job, generation, owner }) =>
      kind === 'claimed' ? [`${job}/${generation}/${pidOf(owner)}`] : [],
    ),
  );
  const begun = groupBy(
    history.filter(({ op, phase }) => op === 'effect' && phase === 'invoke'),
    ({ job }) => job,
  );
  for (const [job, runs] of begun) {
    const marker = markers.get(job);
    if (marker === undefined) continue;
    // A failover that lost a claim issues its generation again, and those after it.
    for (const { gen, pid } of runs)
      if (gen > marker && claimed.has(`${job}/${gen}/${pid}`))
        yield `the effect of job ${job} ran in generation ${gen}, marked in ${marker}`;
  }
  yield* repeated(history, begun);
  const done = new Set(effectsOf(history).map(({ job }) => job));
  for (const { id, type, status } of state.jobs) {
    if (type !== 'mail' || status !== 'completed') continue;
    if (!done.has(id)) yield `job ${id} is completed, and its effect never happened`;
    if (!markers.has(id)) yield `job ${id} is completed, and its effect is not marked`;
  }
}

/** Whoever asks after the marker was reported as written, under whichever generation, does not run the effect. */
function* repeated(history, begun) {
  const lost = lossesOf(history);
  const asked = new Map();
  const marked = new Map();
  for (const { op, phase, job, gen, pid, t } of history) {
    if (op !== 'once') continue;
    if (phase === 'invoke') asked.set(`${job}/${gen}/${pid}`, t);
    else if (!marked.has(job) && !lost.marked(`${job}/${gen}`)) marked.set(job, t);
  }
  for (const [job, runs] of begun) {
    for (const { gen, pid } of runs)
      if (asked.get(`${job}/${gen}/${pid}`) > marked.get(job))
        yield `the effect of job ${job} ran in generation ${gen}, asked for after it was marked`;
  }
}

function* children(state) {
  const byParent = groupBy(
    state.jobs.filter(({ type }) => type === 'child'),
    ({ payload }) => payload.parent,
  );
  for (const { id, type, status, payload } of state.jobs) {
    if (type !== 'parent') continue;
    const numbers = (byParent.get(id) ?? []).map((child) => child.payload.n).sort();
    byParent.delete(id);
    const wanted =
      status === 'completed' ? Array.from({ length: payload.children }, (_, n) => n) : [];
    if (String(numbers) !== String(wanted))
      yield `job ${id} (${status}) should have the children [${wanted}] and has [${numbers}]`;
  }
  for (const parent of byParent.keys()) yield `children of job ${parent}, which does not exist`;
}
