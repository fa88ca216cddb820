// Ownership: one owner for each generation of a job, leases that do not overlap, and no accepted write from a lease
// that was over. The witness tells what the database accepted; the histories tell what the processes believe.
import { groupBy } from './acceptance.mjs';

export function checkOwnership({ history, state }) {
  const violations = [...witnessed(state.witness)];
  const runs = history.filter(({ op }) => op === 'run');
  const known = new Set(
    state.witness.filter(({ kind }) => kind === 'enqueued').map(({ job }) => job),
  );
  const owners = new Map();
  for (const { job, gen, pid } of runs.filter(({ phase }) => phase === 'invoke')) {
    if (!known.has(job)) violations.push(`job ${job} ran and was never enqueued`);
    const key = `${job}/${gen}`;
    if (owners.has(key)) {
      violations.push(
        `generation ${gen} of job ${job} ran in process ${owners.get(key)} and again in ${pid}`,
      );
    }
    owners.set(key, pid);
  }
  violations.push(...settled(history, state));
  const register = history.filter(({ op }) => op === 'register');
  violations.push(...registered(register));
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

/** What a worker reports as completed was completed, and by that very attempt. */
function* settled(history, state) {
  const ended = new Map(state.jobs.map((job) => [job.id, job]));
  for (const { op, how, job: id, gen, who } of history) {
    if (op !== 'settle' || how !== 'completed') continue;
    const job = ended.get(id);
    if (job?.status !== 'completed')
      yield `${who} reported job ${id} completed, and it is ${job?.status ?? 'gone'}`;
    else if (job.generation !== gen)
      yield `${who} completed generation ${gen} of job ${id}, which was at generation ${job.generation}`;
  }
}

function* registered(register) {
  for (const [job, writes] of groupBy(
    register.filter(({ accepted }) => accepted),
    ({ job }) => job,
  )) {
    let highest = 0;
    const writers = new Map();
    for (const { token, by } of writes) {
      if (token < highest) yield `the register took token ${token} of job ${job} after ${highest}`;
      highest = Math.max(highest, token);
      if ((writers.get(token) ?? by) !== by)
        yield `token ${token} of job ${job} was used by ${writers.get(token)} and by ${by}`;
      writers.set(token, by);
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
