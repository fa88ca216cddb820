/** Where a job comes from that a schedule has made. It comes last: it keeps no job from running. */
import type { ShownJob } from '../job/show.js';
import type { Reason } from './reasons.js';

export function fromSchedule({ headers }: ShownJob): Reason[] {
  const { holdfast_schedule: name, holdfast_scheduled_at: instant } = (headers ?? {}) as Record<
    string,
    string | undefined
  >;
  if (name === undefined) return [];
  return [
    {
      code: 'from_schedule',
      text: `It was made by schedule "${name}" for ${instant ?? 'an instant that it does not say'}.`,
      fix: null,
    },
  ];
}
