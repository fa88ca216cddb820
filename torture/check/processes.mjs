// Processes: nobody ends by itself, nothing is left uncaught, nobody waits in a circle, and what processes hold of
// memory and connections has a bound.

const MAX_RSS_MB = 400;
/** Rows are locked in one order everywhere. */
const DEADLOCK = '40P01';

/** Who ended although nobody ended it, and what nobody caught. */
export function* processes(history, run) {
  const signalled = new Set();
  const crashing = new Set();
  for (const { op, child, signal, pid } of history) {
    if (op === 'signal') signalled.add(`${child}/${signal}`);
    if (op === 'crash') crashing.add(pid);
  }
  for (const { op, phase, child, name, code, signal, stderr } of history) {
    if (op !== 'process' || phase !== 'note' || crashing.has(child)) continue;
    if (signal && signalled.has(`${child}/${signal}`)) continue;
    if (code === 0 && (signalled.has(`${child}/SIGTERM`) || /^producer/.test(name))) continue;
    // A second SIGTERM ends a worker at once, by contract.
    if (code === 143 && signalled.has(`${child}/SIGTERM`)) continue;
    yield `${name} (process ${child}) ended with ${signal ?? code} by itself: ${stderr?.slice(-300)}`;
  }
  for (const { op, who, error } of history)
    if (op === 'unhandled') yield `${who}: unhandled: ${error}`;
  if (run.maxRssMb > MAX_RSS_MB) yield `a process grew to ${run.maxRssMb} MB`;
  for (const { op, who, code } of history)
    if (op !== 'process' && code === DEADLOCK) yield `${who}: ${op} ended in a deadlock`;
  if (run.deadlocks > 0) yield `the server counted ${run.deadlocks} deadlocks`;
  if (run.connectionsBefore === null || run.connectionsAfter === null)
    yield 'nobody counted the connections';
  if (run.connectionsAfter > run.connectionsBefore * 1.5 + 10)
    yield `${run.connectionsAfter} connections after healing; undisturbed were ${run.connectionsBefore}`;
}
