/** `holdfast queues ls | create | pause | resume`; `set` and `drop` are in queue-settings.ts. */
import { turnQueue } from '../../../api/act/acts.js';
import { makeQueue, partOf } from '../../../api/act/queue-settings.js';
import { openQueues, queueFigures } from '../../../inspect/queue/overview.js';
import { describePaused, isPartlyPaused, type QueueRow } from '../../../inspect/queue/queues.js';
import { nearest } from '../../../job/options/nearest.js';
import type { QueuePart } from '../../../operate/queue.js';
import type { NewQueueOptions } from '../../../schema/queue.js';
import { actOptions } from '../../actor.js';
import { mistyped } from '../../ask/mistyped.js';
import type { Call } from '../../command.js';
import { UsageError } from '../../failures.js';
import { turnOptions } from '../../parse/turn-options.js';
import { noteLocked } from '../../print/locked.js';
import { queueColumns } from '../../print/views.js';

export function oneName(args: readonly string[], verb: string): string {
  const [name, ...rest] = args;
  if (!name || rest.length > 0) throw new UsageError(`Write: holdfast queues ${verb} NAME`);
  return name;
}

export async function runList({ session, out }: Call): Promise<number> {
  const { queues, locked } = await session.read((db, part) =>
    openQueues(db, part, session.schema, { withRates: true }),
  );
  if (out.json) for (const row of queues) await out.value(queueFigures(row));
  else await out.rows(queues, queueColumns);
  return noteLocked(out, locked);
}

export async function runCreate({ args, given, session, out }: Call): Promise<void> {
  const name = oneName(args, 'create');
  // Checked where they are used, with a message that names what is allowed.
  const [ordering, deadLetters] = [given.text('ordering'), given.text('dead-letters')];
  const options = {
    ...(ordering !== undefined && { ordering }),
    ...(deadLetters !== undefined && { deadLetters }),
    ...turnOptions(given),
  } as NewQueueOptions;
  const names = session.names(name);
  const created = await makeQueue(session.pool, names, options, actOptions(given));
  await (out.json ? out.value({ queue: name, created }) : out.line(name));
  out.note(
    created ? `Queue "${name}" was created.` : `Queue "${name}" exists already; nothing was done.`,
  );
}

async function pause({ args, given, session, out }: Call, paused: boolean): Promise<void> {
  const name = oneName(args, paused ? 'pause' : 'resume');
  const [type, key] = [given.text('type'), given.text('partition-key')];
  const part = partOf({ ...(type !== undefined && { type }), ...(key !== undefined && { key }) });
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
