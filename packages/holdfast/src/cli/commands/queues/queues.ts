/** `holdfast queues ls | create | pause | resume`; `set` and `drop` are in queue-settings.ts. */
import { turnQueue } from '../../../api/act/acts.js';
import { type PauseOptions, partOf } from '../../../api/act/pause.js';
import { makeQueue } from '../../../api/act/queue-settings.js';
import { ringOwner } from '../../../api/look/ring.js';
import { markStopped } from '../../../inspect/explain/stopped.js';
import { openQueues, queueFigures } from '../../../inspect/queue/overview.js';
import type { QueueRow } from '../../../inspect/queue/queues.js';
import { describePaused, isPartlyPaused } from '../../../inspect/queue/queues.js';
import { defined } from '../../../job/options/known-options.js';
import { nearest } from '../../../job/options/nearest.js';
import type { QueuePart } from '../../../operate/queue.js';
import { actOptions } from '../../actor.js';
import type { Call } from '../../command.js';
import { mistyped } from '../../mistyped.js';
import { readOptions } from '../../parse/values.js';
import { noteLocked, queueColumns } from '../../print/views.js';

export async function runList({ session, out }: Call): Promise<number> {
  const { queues, locked } = await session.read(async (db, part) => {
    const seen = await openQueues(db, part, session.schema, { withRates: true });
    return { ...seen, ...(await markStopped(db, part, session.schema, seen.queues, ringOwner)) };
  });
  if (out.json) for (const row of queues) await out.value(queueFigures(row));
  else await out.rows(queues, queueColumns);
  return noteLocked(out, locked);
}

export async function runCreate({ args, given, session, out }: Call): Promise<void> {
  const name = args[0] as string;
  const names = session.names(name);
  const created = await makeQueue(session.pool, names, readOptions(given), actOptions(given));
  await (out.json ? out.value({ queue: name, created }) : out.line(name));
  out.note(
    created ? `Queue "${name}" was created.` : `Queue "${name}" exists already; nothing was done.`,
  );
}

async function pause({ args, given, session, out }: Call, paused: boolean): Promise<void> {
  const name = args[0] as string;
  const asked = defined({ type: given.text('type'), key: given.text('partition-key') });
  const part = partOf(asked as object as PauseOptions);
  const [before] = (await session.queues([name])) as [QueueRow];
  const options = actOptions(given);
  const was = await turnQueue(session.pool, session.names(name), paused, options, part);
  await (out.json ? out.value({ queue: name, ...part, paused }) : out.line(name));
  if (part) {
    out.note(partNote(before, part, paused, was === paused));
    const doubt = paused && !was ? await mistyped(session, name, part) : null;
    if (doubt) out.note(doubt);
    return;
  }
  const state = paused ? 'paused' : 'open';
  out.note(
    was === paused
      ? `Queue "${name}" was ${state} already.`
      : paused
        ? `Queue "${name}" is paused: it takes jobs and none is claimed. Jobs that run go on.`
        : `Queue "${name}" is open: its jobs are claimed again.`,
  );
  if (!paused && isPartlyPaused(before))
    out.note(`Still paused by themselves: ${describePaused(before)}.`);
}

function partNote(before: QueueRow, part: QueuePart, paused: boolean, already: boolean): string {
  const what = 'type' in part ? `the type "${part.type}"` : `the key "${part.key}"`;
  const whose = `${what} of queue "${before.name}"`;
  if (already && paused) return `Jobs of ${whose} were paused already.`;
  if (already) {
    const others = 'type' in part ? before.pausedTypes : before.pausedKeys;
    const meant = nearest('type' in part ? part.type : part.key, others);
    return `Jobs of ${whose} were open already.${meant}`;
  }
  if (paused) return `Jobs of ${whose} are paused: none is claimed. Jobs that run go on.`;
  return `Jobs of ${whose} are claimed again${before.paused ? ' when the queue is open' : ''}.`;
}

export const runPause = (call: Call) => pause(call, true);
export const runResume = (call: Call) => pause(call, false);
