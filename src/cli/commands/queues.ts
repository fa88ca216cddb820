/** `holdfast queues ls | create | pause | resume`; `set` and `drop` are in queue-settings.ts. */
import { turnQueue } from '../../api/acts.js';
import { makeQueue } from '../../api/queue-settings.js';
import { queueFigures, queuesOverview } from '../../inspect/overview.js';
import type { NewQueueOptions } from '../../schema/queue.js';
import { actOptions } from '../actor.js';
import { type Call, UsageError } from '../command.js';
import { turnOptions } from '../turn-options.js';
import { queueColumns } from '../views.js';

export function oneName(args: readonly string[], verb: string): string {
  const [name, ...rest] = args;
  if (!name || rest.length > 0) throw new UsageError(`Write: holdfast queues ${verb} NAME`);
  return name;
}

export async function runList({ session, out }: Call): Promise<void> {
  const rows = await session.read((db) => queuesOverview(db, session.schema));
  if (out.json) for (const row of rows) await out.value(queueFigures(row));
  else await out.rows(rows, queueColumns);
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
  const [before] = await session.queues([name]);
  await turnQueue(session.pool, session.names(name), paused, actOptions(given));
  await (out.json ? out.value({ queue: name, paused }) : out.line(name));
  const state = paused ? 'paused' : 'open';
  out.note(
    before?.paused === paused
      ? `Queue "${name}" was ${state} already.`
      : paused
        ? `Queue "${name}" is paused: it takes jobs and none is claimed. Jobs that run go on.`
        : `Queue "${name}" is open: its jobs are claimed again.`,
  );
}

export const runPause = (call: Call) => pause(call, true);
export const runResume = (call: Call) => pause(call, false);
