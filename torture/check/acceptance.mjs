// Accepted work: every acknowledged enqueue ended, nothing else was there, one job for each idempotency key, and
// the business row and its jobs are there together or not at all.
import { lossesOf } from './failovers.mjs';

/** Nobody cancels anything here but runs. Who may become a dead letter is the business of the bystanders' check. */
const ENDED = new Set(['completed', 'dead_letter']);
const hasEnded = ({ type, status }) =>
  ENDED.has(status) || (type === 'checkout' && status === 'cancelled');

export function checkAcceptance({ history, state }) {
  const violations = [];
  const byId = new Map(state.jobs.map((job) => [job.id, job]));
  const byOp = groupBy(
    state.jobs.filter(({ idem }) => idem),
    ({ idem }) => idem.split('#')[0],
  );
  const orders = new Set(state.orders.map(({ op }) => op));
  const ops = operationsOf(history);
  let accepted = 0;
  let lost = 0;
  let lostExplained = 0;
  const lostThere = lossesOf(history);
  let unknown = 0;
  for (const [op, facts] of ops) {
    const rows = byOp.get(op) ?? [];
    unknown += facts.unknown;
    if (facts.rolledBack && (rows.length > 0 || orders.has(op))) {
      violations.push(`${op} was rolled back, and ${rows.length} of its jobs exist`);
    }
    for (const [n, id] of facts.ids.entries()) {
      accepted++;
      const job = byId.get(id);
      if (job && job.idem !== `${op}#${n}`)
        violations.push(`${op}: its job ${n} was acknowledged as ${id}, which is ${job.idem}`);
      if (!job) {
        lost++;
        if (lostThere.enqueued(id)) lostExplained++;
        else violations.push(`${op}: job ${id} was acknowledged and is lost`);
      }
    }
    if (facts.conflicting.some((id) => !lostThere.enqueued(id)))
      violations.push(`${op} was acknowledged twice, with different jobs`);
    if (rows.length > 0 && rows.length !== facts.jobs) {
      violations.push(`${op} has ${rows.length} jobs and should have ${facts.jobs}`);
    }
    if (facts.inTransaction && orders.has(op) !== rows.length > 0) {
      violations.push(`${op}: the business row and its jobs are not there together`);
    }
  }
  // Also what nobody was told of: children, and what was enqueued by a producer that did not live to hear of it.
  for (const job of state.jobs)
    if (!hasEnded(job))
      violations.push(`job ${job.id} (${job.type}) is ${job.status} after the drain`);
  violations.push(...unanswered(history, ops));
  for (const op of byOp.keys())
    if (!ops.has(op)) violations.push(`${op} has jobs and was never asked for`);
  const doubled = duplicates(state.jobs.filter(({ idem }) => idem).map(({ idem }) => idem));
  for (const idem of doubled)
    violations.push(`the idempotency key ${idem} stands for several jobs`);
  for (const id of duplicates(state.jobs.map(({ id }) => id)))
    violations.push(`job ${id} exists twice`);
  return {
    violations,
    counts: { accepted, lost, lostExplained, doubled: doubled.length, unknownOutcomes: unknown },
  };
}

/** An operation is repeated until it is acknowledged, so only one whose producer was killed may have no answer. */
function* unanswered(history, ops) {
  // Those that come later are to end the run.
  const healedAt = history.find(({ op }) => op === 'healed')?.t ?? Number.POSITIVE_INFINITY;
  const killed = new Set(
    history.filter(({ op, t }) => op === 'signal' && t < healedAt).map(({ child }) => child),
  );
  for (const [op, { ids, rolledBack, pid }] of ops)
    if (ids.length === 0 && !rolledBack && !killed.has(pid))
      yield `${op} never got an answer, and its producer lives`;
}

/** Of each operation: what was asked, and what the producer was told. */
function operationsOf(history) {
  const ops = new Map();
  for (const line of history) {
    if (line.op === 'enqueue') learn(ops, line);
  }
  return ops;
}

/** `op` of a line is what is done; the operation's own name stands beside it, under `of`. */
function learn(ops, { pid, phase, of, jobs, ids, inTransaction }) {
  const facts = ops.get(of) ?? {
    jobs: 0,
    ids: [],
    unknown: 0,
    rolledBack: false,
    inTransaction: false,
    /** What was acknowledged before the last answer, and differs from it. */
    conflicting: [],
  };
  ops.set(of, facts);
  if (phase === 'invoke') Object.assign(facts, { jobs, inTransaction, pid });
  if (phase === 'unknown') facts.unknown++;
  if (phase === 'fail') facts.rolledBack = true;
  if (phase === 'ok') {
    if (String(facts.ids) === String(ids)) return;
    facts.conflicting.push(...facts.ids);
    Object.assign(facts, { ids });
  }
}

export function groupBy(items, keyOf) {
  const groups = new Map();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return groups;
}

export function duplicates(values) {
  const seen = new Set();
  const twice = new Set();
  for (const value of values) {
    if (seen.has(value)) twice.add(value);
    seen.add(value);
  }
  return [...twice];
}
