// Ownership: one owner for each generation of a job, leases that do not overlap, and no accepted write from a lease
// that was over. The witness tells what the database accepted; the histories tell what the processes believe.
import { groupBy } from './acceptance.mjs';
import { alivenessOf } from './alive.mjs';
import { lossesOf } from './failovers.mjs';
import { pidOf, witnessed } from './witness.mjs';

export function checkOwnership({ history, state, run }) {
  const runs = history.filter(({ op }) => op === 'run');
  const register = history.filter(({ op }) => op === 'register');
  const claims = new Set(
    state.witness
      .filter(({ kind }) => kind === 'claimed')
      .map(({ job, generation, owner }) => `${job}/${generation}/${pidOf(owner)}`),
  );
  const lost = lossesOf(history);
  const violations = [
    ...witnessed(state.witness, alivenessOf(history, run)),
    ...ran(runs, claims, state, lost),
    ...finished(runs, state.jobs),
    ...settled(history, state),
    ...registered(register, claims, lost),
  ];
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

/** Each generation of a job once, in the process that claimed it, and in a build that knows its version. */
function* ran(runs, claims, state, lost) {
  const known = new Set(
    state.witness.filter(({ kind }) => kind === 'enqueued').map(({ job }) => job),
  );
  const owners = new Map();
  const versions = new Map(state.jobs.map(({ id, version }) => [id, version]));
  for (const { phase, job, gen, pid, build } of runs) {
    if (phase !== 'invoke') continue;
    const claim = `${job}/${gen}/${pid}`;
    if (!known.has(job) && !lost.enqueued(job)) yield `job ${job} ran and was never enqueued`;
    else if (!claims.has(claim) && !lost.claimed(claim))
      yield `process ${pid} ran generation ${gen} of job ${job}, which it has never claimed`;
    if (build < versions.get(job))
      yield `job ${job} of version ${versions.get(job)} ran in a build that knows version ${build}`;
    const before = owners.get(`${job}/${gen}`);
    owners.set(`${job}/${gen}`, pid);
    // After a failover that lost the claim, its generation is issued again.
    const issuedTwice = lost.claimed(claim) || lost.claimed(`${job}/${gen}/${before}`);
    if (before && !issuedTwice)
      yield `generation ${gen} of job ${job} ran in process ${before} and again in ${pid}`;
  }
}

/** These commit in their handler, and may be killed before they write down that it ended. */
const TRANSACTIONAL = new Set(['pay', 'guarded', 'parent']);

/** What is completed has run to its end, in the attempt and the process that completed it. */
function* finished(runs, jobs) {
  const ends = new Map();
  for (const { phase, job, gen, pid } of runs) {
    const key = `${job}/${gen}/${pid}`;
    if (phase === 'ok' || !ends.has(key)) ends.set(key, phase);
  }
  for (const { id, type, status, generation, owner } of jobs) {
    // Of a run there are many turns, and the check of the workflows reads what they wrote.
    if (status !== 'completed' || type === 'checkout') continue;
    const end = ends.get(`${id}/${generation}/${pidOf(owner)}`);
    if (end === undefined || (end !== 'ok' && !TRANSACTIONAL.has(type)))
      yield `job ${id} (${type}) is completed, and its handler ${end ? 'did not end' : 'never ran'}`;
  }
}

/** What a worker reports as completed was completed, and by that very attempt; the same for failures. */
function* settled(history, state) {
  const lost = lossesOf(history);
  const ended = new Map(state.jobs.map((job) => [job.id, job]));
  const back = new Set(
    state.witness
      .filter(({ kind, crashed }) => (kind === 'pending' || kind === 'dead_letter') && !crashed)
      .map(({ job, generation }) => `${job}/${generation}`),
  );
  for (const { op, how, job: id, gen, who, pid } of history) {
    if (op !== 'settle' || lost.settled(`${id}/${gen}`)) continue;
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

/**
 * The register refuses tokens that fall, so what it took says little by itself. It counts who wrote: a token is the
 * generation of a claim, so it belongs to the process that the database gave it to, and to nobody else.
 */
function* registered(register, claims, lost) {
  for (const [job, writes] of groupBy(register, ({ job }) => job)) {
    let highest = 0;
    for (const { token, by, accepted } of writes) {
      if (accepted && token < highest)
        yield `the register took token ${token} of job ${job} after ${highest}`;
      if (accepted) highest = Math.max(highest, token);
      const key = `${job}/${token}/${by.split('/').at(-1)}`;
      if (!claims.has(key) && !lost.claimed(key))
        yield `token ${token} of job ${job} was used by ${by}, to whom it was never given`;
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
