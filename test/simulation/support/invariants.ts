/** What must be true after every schedule. */

import type { Server } from '../../../packages/lab/src/simulation/server.js';
import type { Attempt, History } from './history.js';
import type { Plan } from './plan.js';

/** A process that sends more in a second runs in a hot loop. */
const MOST_STATEMENTS = 80;

interface Archived {
  readonly job: string;
  readonly status: string;
  readonly generation: number;
}

export function violations(server: Server, plan: Plan, history: History): string[] {
  const names = new Map(plan.jobs.map(({ id, name }) => [id, name]));
  const archive = server
    .rows(`SELECT id, status, lease_generation FROM holdfast.${plan.queue}_archive ORDER BY id`)
    .map(
      ([id, status, generation]): Archived => ({
        job: names.get(id ?? '') ?? `unknown ${id}`,
        status: status ?? '',
        generation: Number(generation),
      }),
    );
  const found = [...history.problems];
  const say = (text: string) => found.push(text);
  for (const [id, status, worker] of server.rows(
    `SELECT id, status, coalesce(claimed_by, '') FROM holdfast.${plan.queue} ORDER BY position`,
  )) {
    say(`stuck: ${names.get(id ?? '') ?? id} is still ${status} ${worker}`.trimEnd());
  }
  for (const { name } of plan.jobs) {
    const ends = archive.filter(({ job }) => job === name);
    if (ends.length === 0) say(`lost: ${name} is not in the archive`);
    if (ends.length > 1) say(`${name} is in the archive ${ends.length} times`);
    for (const end of ends) checkEnd(end, history, say);
  }
  for (const { job } of archive)
    if (!plan.jobs.some(({ name }) => name === job)) say(`${job} was never enqueued`);
  checkAttempts(history, say);
  checkVanished(server, plan, say);
  if (plan.queue === 'ordered') checkOrder(plan, archive, history, say);
  if (history.busiest > MOST_STATEMENTS) say(`hot loop: ${history.busiest} statements in a second`);
  return [...new Set(found)];
}

function checkEnd(
  { job, status, generation }: Archived,
  history: History,
  say: (text: string) => void,
): void {
  if (status !== 'completed') say(`${job} ended as ${status}`);
  for (const one of history.completed) {
    if (one.job === job && one.generation !== generation) {
      say(
        `${one.worker} was told that generation ${one.generation} of ${job} is completed; the archive has ${generation}`,
      );
    }
  }
  const accepted = acceptedOf(history, job, generation);
  if (!accepted) say(`${job} is completed, but generation ${generation} did not succeed`);
}

const acceptedOf = (history: History, job: string, generation: number): Attempt | undefined =>
  history.attempts.find(
    (one) => one.job === job && one.generation === generation && one.to !== null,
  );

function checkAttempts({ attempts, enqueueingAt }: History, say: (text: string) => void): void {
  const owners = new Map<string, string>();
  for (const { job, generation, worker } of attempts) {
    const run = `${job} generation ${generation}`;
    if (owners.has(run)) say(`${run} was started by ${owners.get(run)} and by ${worker}`);
    owners.set(run, worker);
    if (!enqueueingAt.has(job)) say(`${worker} ran ${job}, which was not enqueued yet`);
  }
}

/** Nobody is called dead, and no job is taken away, without a reason. */
function checkVanished(server: Server, plan: Plan, say: (text: string) => void): void {
  const hit = new Set(plan.faults.map(({ owner }) => owner));
  for (const [worker] of server.rows(
    `SELECT DISTINCT h ->> 'worker' FROM holdfast.${plan.queue}_archive AS a,
     jsonb_array_elements(a.history) AS h WHERE h ->> 'outcome' = 'vanished' ORDER BY 1`,
  )) {
    if (!hit.has((worker ?? '').slice(0, 2)))
      say(`a job was taken from ${worker}, which no fault has hit`);
  }
}

/** A job whose enqueue was over before another's of its key began comes first. */
function checkOrder(
  plan: Plan,
  archive: readonly Archived[],
  history: History,
  say: (text: string) => void,
): void {
  const accepted = new Map(
    archive.map(({ job, generation }) => [job, acceptedOf(history, job, generation)]),
  );
  for (const first of plan.jobs) {
    for (const second of plan.jobs) {
      const enqueued = history.enqueuedAt.get(first.name) ?? Number.POSITIVE_INFINITY;
      const began = history.enqueueingAt.get(second.name) ?? Number.NEGATIVE_INFINITY;
      if (first.key !== second.key || enqueued >= began) continue;
      const [one, two] = [accepted.get(first.name), accepted.get(second.name)];
      if (one?.to != null && two && one.to > two.from) {
        say(`order: ${second.name} began at ${two.from} before ${first.name} ended at ${one.to}`);
      }
    }
  }
}
