/** `holdfast queues ls | create | pause | resume`. */
import { queueFigures, queuesOverview } from '../../inspect/overview.js';
import { setPaused } from '../../operate/queue.js';
import { withClient } from '../../postgres/pool.js';
import { createQueue, type NewQueueOptions } from '../../schema/queue.js';
import { type Call, UsageError } from '../command.js';
import { queueColumns } from '../views.js';

function oneName(args: readonly string[], verb: string): string {
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
  const options = {
    ordering: given.text('ordering'),
    deadLetters: given.text('dead-letters'),
  } as NewQueueOptions;
  const created = await withClient(session.pool, (client) =>
    createQueue(client, session.schema, name, options),
  );
  await (out.json ? out.value({ queue: name, created }) : out.line(name));
  out.note(
    created ? `Queue "${name}" was created.` : `Queue "${name}" exists already; nothing was done.`,
  );
}

async function pause({ args, session, out }: Call, paused: boolean): Promise<void> {
  const name = oneName(args, paused ? 'pause' : 'resume');
  const [before] = await session.queues([name]);
  await setPaused(session.act, session.names(name), paused);
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
