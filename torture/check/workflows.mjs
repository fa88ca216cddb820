// Workflows: each transactional step once, each undo once and the last first, each signal taken once and in the order in
// which they were sent, each child counted once, and every run in bodies of the version that it began with.
import { groupBy } from './acceptance.mjs';

const UNDO = 'undo ';
/** Nothing undoes them. */
const NOTES = new Set(['arrived', 'heard']);

export function checkWorkflows({ history, state }) {
  const runs = state.jobs.filter(({ type }) => type === 'checkout');
  const wrote = groupBy(state.flows ?? [], ({ run }) => run);
  const signals = groupBy(state.signals ?? [], ({ run }) => run);
  const cancelled = new Set(history.flatMap(({ op, of }) => (op === 'cancel' ? [of] : [])));
  const violations = runs.flatMap((run) => {
    const rows = wrote.get(run.id) ?? [];
    return [
      ...once(run, rows),
      ...undone(run, rows),
      ...heard(run, rows),
      ...taken(run, signals.get(run.id) ?? []),
      ...ended(run, cancelled),
    ];
  });
  const count = (status) => runs.filter((run) => run.status === status).length;
  return {
    violations,
    counts: {
      runs: runs.length,
      runsUndone: [...wrote.values()].filter((rows) => rows.some(({ what }) => isUndo(what)))
        .length,
      runsCancelled: count('cancelled'),
      runsDead: count('dead_letter'),
      signalsTaken: (state.signals ?? []).filter(({ taken_by }) => taken_by !== null).length,
    },
  };
}

const isUndo = (what) => what.startsWith(UNDO);

function* once({ id, version, status }, rows) {
  for (const [what, { length }] of groupBy(rows, ({ what }) => what))
    if (length > 1) yield `run ${id} did "${what}" ${length} times`;
  const other = rows.find((row) => row.version !== version);
  if (other)
    yield `run ${id} of version ${version} did "${other.what}" in version ${other.version}`;
  if (status === 'completed' && !rows.some(({ what }) => what === 'heard'))
    yield `run ${id} is completed, and its last step was not done`;
}

function* undone({ id, status }, rows) {
  const done = rows.filter(({ what }) => !isUndo(what) && !NOTES.has(what)).map(({ what }) => what);
  const undos = rows.filter(({ what }) => isUndo(what)).map(({ what }) => what.slice(UNDO.length));
  if (status === 'completed') {
    if (undos.length > 0) yield `run ${id} is completed, and undid ${undos}`;
    return;
  }
  const left = done.filter((what) => !undos.includes(what));
  if (left.length > 0) yield `run ${id} is ${status}, and did not undo ${left}`;
  // The opening is asked for before everything else.
  if (undos.length > 1 && undos.at(-1) !== done[0])
    yield `run ${id} undid ${undos}, which it had done in the order ${done}`;
}

/** The first wait hears of the first signal, the second one of the second; and each child ended once, with its own value. */
function* heard({ id, payload }, rows) {
  const facts = Object.fromEntries(rows.map(({ what, facts }) => [what, facts]));
  const { heard, arrived } = facts;
  if (heard && (heard.first !== 1 || heard.second !== 2))
    yield `run ${id} heard of the signals ${heard.first} and ${heard.second}, in this order`;
  if (heard && heard.paid !== `${id}/charge`) yield `run ${id} charged under the key ${heard.paid}`;
  const parcels = Array.from({ length: payload.parcels }, (_, n) => ({
    status: 'completed',
    value: n * 10,
  }));
  const short = (all) => all.map(({ status, value }) => `${status} ${value}`).join(', ');
  if (arrived && short(arrived.parcels) !== short(parcels))
    yield `run ${id} has ${payload.parcels} parcels, and heard of ${short(arrived.parcels)}`;
}

function* taken({ id, status }, signals) {
  const waits = signals.flatMap(({ taken_by }) => taken_by ?? []);
  if (new Set(waits).size < waits.length) yield `run ${id}: a wait took several signals`;
  if (status === 'completed' && waits.length !== 2)
    yield `run ${id} is completed, and ${waits.length} signals were taken`;
}

function* ended({ id, status, payload }, cancelled) {
  if (status === 'cancelled' && !cancelled.has(id))
    yield `run ${id} is cancelled, and nobody asked for it`;
  if (status === 'completed' && payload.fails) yield `run ${id} was to fail, and is completed`;
}
