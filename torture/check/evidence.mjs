// What a verdict rests on. A run in which nothing was enqueued, nothing ran or nothing broke keeps every promise and
// proves none of them; so does a fault that never hits what it aims at.

/** So many times without any effect are no accident: what it aims at is not there any more. */
const AIMLESS = 5;

export function checkEvidence({ history, state, run }) {
  const { faults, inVain } = faultsOf(history);
  const violations = [];
  for (const [what, n] of Object.entries(amounts({ history, state, run })))
    if (n === 0) violations.push(`there was ${what}`);
  if (Object.keys(faults).length === 0) violations.push('no fault had an effect');
  for (const [name, times] of Object.entries(inVain))
    if (times >= AIMLESS && !faults[name])
      violations.push(`the fault ${name} was struck ${times} times and never had an effect`);
  return {
    violations,
    counts: {
      faultsInVain: Object.values(inVain).reduce((sum, n) => sum + n, 0),
      tornLines: history.filter(({ op }) => op === 'torn').length,
      faults,
    },
  };
}

const amounts = ({ history, state, run }) => {
  const inHistory = (op, phase) =>
    history.filter((line) => line.op === op && line.phase === phase).length;
  const { from, to } = run.baseline;
  return {
    'no acknowledged enqueue': inHistory('enqueue', 'ok'),
    'no rolled back enqueue': inHistory('enqueue', 'fail'),
    'no job that ran': inHistory('run', 'invoke'),
    'no transactional effect': state.effects.length,
    'no effect under once': inHistory('effect', 'invoke'),
    'no write to the register': inHistory('register', 'note'),
    'no child': state.jobs.filter(({ type }) => type === 'child').length,
    'no job in the queue that is read by key': state.jobs.filter(({ queue }) => queue === 'lines')
      .length,
    'no job completed while nothing was disturbed': state.jobs.filter(
      ({ at }) => at !== null && at >= from && at < to,
    ).length,
  };
};

/** Of each kind: how many had an effect, and how many missed or failed. */
function faultsOf(history) {
  const faults = {};
  const inVain = {};
  for (const { op, phase, name, hit } of history) {
    if (op !== 'fault' || phase === 'invoke') continue;
    const count = phase === 'ok' && hit ? faults : inVain;
    count[name] = (count[name] ?? 0) + 1;
  }
  return { faults, inVain };
}
