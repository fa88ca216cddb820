/** What the doctor says of projections. */
import type { ProjectionGauges } from '../projections/lag.js';
import { type Finding, lines, note, problem } from './doctor.js';

/** A live build that is further behind is a sign that nobody works on it. */
const BEHIND_MS = 60_000;

export function judgeProjections(all: readonly ProjectionGauges[]): Finding[] {
  return all.flatMap(({ name, version, state, stopped, parked, events, lagMs, refused }) => {
    const of = `Projection "${name}", version ${version} (${state})`;
    const found: Finding[] = [];
    // How far behind it is, nobody can say then.
    if (refused)
      return [
        problem(
          'projections',
          `${of} does not go on: its cursors were taken in another cluster of PostgreSQL.`,
          'A dump was restored, or pg_upgrade ran. What was read is not known, so workers refuse to start.',
          lines('Stop the workers, then:', `holdfast projections rebase ${name}`),
        ),
      ];
    if (stopped > 0)
      found.push(
        problem(
          'projections',
          `${of}: ${stopped} keys stopped at an event that could not be applied; ${parked} events wait.`,
          'The read model lacks what happened to these keys since.',
          lines(
            'See the errors, mend the cause, then let them go on:',
            `holdfast projections stops ${name}`,
            `holdfast projections resume ${name}`,
            'An event that can never be applied is passed over:',
            `holdfast projections skip ${name} EVENT`,
          ),
        ),
      );
    if (state === 'live' && events > 0 && lagMs > BEHIND_MS)
      found.push(
        problem(
          'projections',
          `${of} is about ${events} events behind, the oldest from ${Math.round(lagMs / 1000)} s ago.`,
          'Readers see what was true then.',
          'Look whether a worker runs with project() and its code of this version (`holdfast workers`), and at its log.',
        ),
      );
    if (state === 'old' && events > 0 && lagMs > BEHIND_MS)
      found.push(
        note(
          'projections',
          `${of} is no longer kept up to date: no worker has its code.`,
          'Its events are kept, whatever the retention of the log, and its jobs wait.',
          `holdfast projections rm ${name} --version ${version}`,
        ),
      );
    return found;
  });
}
