/** Schedules of another queue: each is made in one transaction, which also takes it out of its source where it can. */
import { together } from '../../../api/act/acts.js';
import { HoldfastError } from '../../../job/errors/errors.js';
import { job } from '../../../job/job.js';
import type { ActRecord } from '../../../operate/audit.js';
import { checkSchedule } from '../../../schedule/options.js';
import { putSchedules } from '../../../schedule/write.js';
import type { Call } from '../../command.js';
import type { Target } from './convert.js';
import type { Query, Source, SourceSchedule } from './sources/source.js';
import type { Tally } from './tally.js';

export interface Moving {
  readonly call: Call;
  readonly source: Source;
  readonly target: Target;
  readonly tally: Tally;
  readonly queue: string;
  readonly dry: boolean;
  readonly keep: boolean;
  /** The row of this run in the audit. */
  readonly record: ActRecord;
}

export async function moveSchedules(moving: Moving): Promise<void> {
  const { source, tally, call } = moving;
  for (const one of await source.schedules()) {
    if (call.signal.aborted) return;
    const { problem, type } = await move(moving, one);
    const lacks = moving.target.key?.(one.payload).lacks;
    tally.add({ from: one.from, state: 'schedule', becomes: problem ? null : type, why: problem });
    if (problem) continue;
    tally.schedules++;
    for (const warning of one.warnings) tally.warn(warning, 'schedule');
    if (lacks) tally.warn(`${lacks} in its payload, so its jobs get no key`, 'schedule');
  }
}

async function move({ call, source, target, queue, dry, keep }: Moving, one: SourceSchedule) {
  const type = target.types(one.names);
  if (one.stays) return { type, problem: one.stays };
  try {
    const name = one.suffix ? `${type}:${one.suffix}` : type;
    const { cron, everyMs, timezone, partitionKey, maxAttempts, catchUp } = one;
    const key = target.key ? target.key(one.payload).key : partitionKey;
    const schedule = await checkSchedule(
      name,
      {
        ...(cron === null
          ? { every: everyMs as number }
          : { cron, ...(timezone !== null && { timezone }) }),
        job: job(type, { queue }),
        payload: one.payload as never,
        ...(key !== null && { partitionKey: key }),
        ...(maxAttempts !== null && { maxAttempts }),
        ...{ priority: one.priority as 2, catchUp },
      },
      target.maxPayloadBytes,
    );
    if (dry) return { type: name, problem: null };
    await together(call.session.pool, async (db, client) => {
      await putSchedules(db, call.session.names(queue), null, [schedule]);
      if (!keep && !source.apart) await source.removeSchedule(one.id, client as Query);
    });
    if (!keep && source.apart) await source.removeSchedule(one.id, call.session.pool as Query);
    return { type: name, problem: null };
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    return { type, problem: error.message.split(/[.;] No(?:thing| schedule) /i, 1)[0] as string };
  }
}
