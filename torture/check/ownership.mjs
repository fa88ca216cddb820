// Ownership: one owner for each generation of a job, leases that do not overlap, and no accepted write from a lease
// that was over. The witness tells what the database accepted; the histories tell what the processes believe.
import { groupBy } from './acceptance.mjs';
import { lossesOf } from './failovers.mjs';

/** A worker's id has its process id in it. */
export const pidOf = (owner) => Number(owner?.split('-').at(-2));

export function checkOwnership({ history, state }) {
  const violations = [...witnessed(state.witness)];
  const runs = history.filter(({ op }) => op === 'run');
  const known = new Set(
    state.witness.filter(({ kind }) => kind === 'enqueued').map(({ job }) => job),
  );
  violations.push(...ran(runs, known, state.jobs, lossesOf(history)));
  violations.push(...settled(history, state));
  const register = history.filter(({ op }) => op === 'register');
  violations.push(...registered(register, lossesOf(history)));
  return {
    violations,
    counts: {
      runs: runs.filter(({ phase }) => phase === 'invoke').length,
      handlerOverlaps: overlaps(runs),
      staleWritesRefused: register.filter(({ accepted }) => !accepted).length,
      leasesLost: history.filter(({ op, how }) => op === 'settle' && how === 'lost').length,
    },
  };
}

/** Each generation of a job in one process, once; and in a build that knows its version. */
function* ran(runs, known, jobs, mayBeLost) {
  const owners = new Map();
  const versions = new Map(jobs.map(({ id, version }) => [id, version]));
  for (const { phase, job, gen, pid, build, t } of runs) {
    if (phase !== 'invoke') continue;
    if (!known.has(job) && !mayBeLost(t)) yield `job ${job} ran and was never enqueued`;
    if (build < versions.get(job))
      yield `job ${job} of version ${versions.get(job)} ran in a build that knows version ${build}`;
    const before = owners.get(`${job}/${gen}`);
    owners.set(`${job}/${gen}`, { pid, t });
    // After a failover that lost the claim, its generation is issued again.
    if (before && !mayBeLost(before.t))
      yield `generation ${gen} of job ${job} ran in process ${before.pid} and again in ${pid}`;
  }
}

/** The changes of ownership of each job, in the order in which the database made them. */
function* witnessed(witness) {
  for (const [job, changes] of groupBy(witness, ({ job }) => job)) {
    let generation = 0;
    let over = false;
    for (const change of changes) {
      const what = `job ${job}, generation ${change.generation}`;
      if (change.kind === 'enqueued') continue;
      if (over) yield `${what}: ${change.kind} after it was gone`;
      if (change.kind === 'claimed') {
        if (change.generation !== generation + 1)
          yield `${what}: claimed after generation ${generation}`;
        generation = change.generation;
        if (change.was_status === 'processing' && !change.was_expired)
          yield `${what}: claimed by ${change.owner} under the live lease of ${change.was_owner}`;
      } else if (change.crashed) {
        if (!change.was_expired && !change.was_owner_dead)
          yield `${what}: recovered from ${change.was_owner}, which is alive and has a live lease`;
      } else if (change.kind === 'gone' || change.kind === 'dead_letter') {
        if (change.was_status !== 'processing')
          yield `${what}: ${change.kind} while ${change.was_status}`;
        else if (change.was_expired)
          yield `${what}: ${change.kind} by ${change.was_owner} after its lease was over`;
      }
      if (change.kind === 'gone') over = true;
    }
  }
}

/** What a worker reports as completed was completed, and by that very attempt; the same for failures. */
function* settled(history, state) {
  const mayBeLost = lossesOf(history);
  const ended = new Map(state.jobs.map((job) => [job.id, job]));
  const back = new Set(
    state.witness
      .filter(({ kind, crashed }) => (kind === 'pending' || kind === 'dead_letter') && !crashed)
      .map(({ job, generation }) => `${job}/${generation}`),
  );
  for (const { op, how, job: id, gen, who, pid, t } of history) {
    if (op !== 'settle' || mayBeLost(t)) continue;
    if ((how === 'failed' || how === 'released') && !back.has(`${id}/${gen}`))
      yield `${who} reported generation ${gen} of job ${id} ${how}, and it was not`;
    if (how !== 'completed') continue;
    const job = ended.get(id);
    if (job?.status !== 'completed')
      yield `${who} reported job ${id} completed, and it is ${job?.status ?? 'gone'}`;
    else if (job.generation !== gen)
      yield `${who} completed generation ${gen} of job ${id}, which was at generation ${job.generation}`;
    else if (pidOf(job.owner) !== pid)
      yield `${who} reported job ${id} completed, and ${job.owner} did`;
  }
}

function* registered(register, mayBeLost) {
  for (const [job, writes] of groupBy(
    register.filter(({ accepted }) => accepted),
    ({ job }) => job,
  )) {
    let highest = 0;
    const writers = new Map();
    for (const { token, by, t } of writes) {
      if (token < highest) yield `the register took token ${token} of job ${job} after ${highest}`;
      highest = Math.max(highest, token);
      const before = writers.get(token);
      if (before && before.by !== by && !mayBeLost(before.t))
        yield `token ${token} of job ${job} was used by ${before.by} and by ${by}`;
      writers.set(token, { by, t });
    }
  }
}

/** How often two attempts of one job ran at once: allowed, and told. */
function overlaps(runs) {
  let count = 0;
  for (const lines of groupBy(runs, ({ job }) => job).values()) {
    const open = new Set();
    for (const { phase, gen, pid } of lines) {
      const key = `${gen}/${pid}`;
      if (phase === 'invoke') {
        if (open.size > 0) count++;
        open.add(key);
      } else open.delete(key);
    }
  }
  return count;
}
