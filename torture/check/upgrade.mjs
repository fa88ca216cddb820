// The upgrade of the engine: it came to its end, found jobs in every state, took away nothing that an old worker needs and
// everything that nobody does, and both releases worked while they were beside each other. What happened to the jobs is the
// business of the other parts.
import { pidOf } from './witness.mjs';

const STATES = ['waiting', 'scheduled', 'running', 'dead', 'limits', 'archived'];

export function checkUpgrade({ history, state }) {
  const steps = history.filter(({ op }) => op === 'upgrade');
  if (steps.length === 0) return { violations: [], counts: {} };
  const of = (step) => steps.find((line) => line.step === step);
  const violations = steps.flatMap(({ step, error }) => (step === 'failed' ? [error] : []));
  const [before, migrated, replaced, finished] = ['before', 'migrated', 'replaced', 'finished'].map(
    of,
  );
  for (const what of STATES)
    if (before && before[what] === 0) violations.push(`the migration found nothing ${what}`);
  if (migrated && String(migrated.oldIndexes) !== String(before.oldIndexes))
    violations.push(
      `the first migration dropped indexes that old workers read: ${before.oldIndexes} became ${migrated.oldIndexes}`,
    );
  if (replaced?.oldAlive > 0)
    violations.push(`${replaced.oldAlive} old workers, which have ended, count as alive`);
  if (!finished) violations.push('the upgrade did not come to its end');
  else if (finished.oldIndexes.length > 0)
    violations.push(`nobody needs them, and they are there: ${finished.oldIndexes.join(', ')}`);
  const work = workOf(history, state, migrated?.wall, replaced?.wall);
  for (const [what, n] of Object.entries(work))
    if (finished && n === 0) violations.push(`no job was ${TOLD[what]}`);
  const migrations = steps.filter(({ step }) => step === 'migrate');
  return {
    violations,
    counts: {
      upgrade: {
        ...Object.fromEntries(STATES.map((what) => [what, before?.[what] ?? 0])),
        ...work,
        migrationsEndedEarly: migrations.filter(({ code }) => code !== 0).length,
        replaced: steps.filter(({ step, hit }) => step === 'replace' && hit).length,
      },
    },
  };
}

const TOLD = {
  byOldBefore: 'completed by an old worker before the migration',
  byOldAfter: 'completed by an old worker after the migration',
  byNewBeside: 'completed by a new worker while old ones lived',
  handedOver: 'claimed by an old worker and completed by a new one',
};

function workOf(history, state, migratedAt, replacedAt) {
  const releases = new Map(
    history.flatMap(({ op, phase, pid, release }) =>
      op === 'worker' && phase === 'invoke' ? [[pid, release]] : [],
    ),
  );
  const isOld = (owner) => releases.get(pidOf(owner)) === 'old';
  const ended = state.jobs.filter(({ status }) => status === 'completed');
  const byOld = ended.filter(({ owner }) => isOld(owner));
  const byNew = ended.filter(({ owner }) => !isOld(owner));
  const tried = new Set(
    state.witness.flatMap(({ kind, job, owner }) =>
      kind === 'claimed' && isOld(owner) ? [job] : [],
    ),
  );
  return {
    byOldBefore: byOld.filter(({ at }) => at < migratedAt).length,
    byOldAfter: byOld.filter(({ at }) => at >= migratedAt).length,
    byNewBeside: byNew.filter(({ at }) => at < replacedAt).length,
    handedOver: byNew.filter(({ id }) => tried.has(id)).length,
  };
}
