/**
 * Applying events: a page at once, and where that fails, event by event, so that only the key of the event at fault
 * stops. Its later events wait in line until somebody resumes it.
 */
import { describeError, errorText } from '../../../job/errors/failure.js';
import { isTransient } from '../../../postgres/connect/transient.js';
import type { LoggedEvent } from '../event.js';
import type { Cursor } from '../rows/cursor.js';
import { type Page, parked, type SlicedEvent } from '../rows/page.js';
import { goOn, park, stop, unpark, type Wish } from '../rows/stops.js';
import type { Shard, ShardDeps } from './deps.js';
import { moving, Overtaken, type Writing } from './transaction.js';

/** A missing right, a broken disk: the same for all events. */
const OF_ALL_EVENTS = /^(42501|58|F0|XX)/;

/** No fault of the event: the page is tried again. */
const mayPass = (error: unknown) =>
  error instanceof Overtaken ||
  isTransient(error) ||
  OF_ALL_EVENTS.test(String((error as { code?: unknown } | null)?.code));

const given = (events: readonly SlicedEvent[]) => events as unknown as LoggedEvent<never>[];

export interface Applied {
  readonly cursor: Cursor;
  /** Keys that stopped just now. */
  readonly stopped: readonly string[];
}

/** Applies a page and moves the cursor behind it. Events of keys in `stops` wait in line. */
export async function applyPage(
  deps: ShardDeps,
  shard: Shard,
  cursor: Cursor,
  page: Page,
  stops: ReadonlyMap<string, Wish>,
): Promise<Applied> {
  const { events, until, untilTop } = page;
  const done = events.length < deps.projection.page;
  const at = events.at(-1)?.position ?? cursor.atPosition;
  const to = { cursor, done, until, untilTop, at, count: events.length };
  const waiting = events.filter(({ key }) => stops.has(key));
  const fresh = waiting.length === 0 ? events : events.filter(({ key }) => !stops.has(key));
  try {
    const next = await moving(deps, shard, to, async ({ client, db }) => {
      await park(db, deps.names, shard.projectionId, waiting);
      if (fresh.length > 0) await deps.projection.apply(given(fresh), client);
    });
    return { cursor: next, stopped: [] };
  } catch (error) {
    if (mayPass(error) || fresh.length === 0) throw error;
  }
  const stopped = new Set(stops.keys());
  const next = await moving(deps, shard, to, async (writing) => {
    const line: SlicedEvent[] = [];
    for (const event of events)
      if (stopped.has(event.key)) line.push(event);
      else if (!(await applyAlone(deps, shard, writing, event))) {
        stopped.add(event.key);
        line.push(event);
      }
    await park(writing.db, deps.names, shard.projectionId, line);
  });
  return { cursor: next, stopped: [...stopped].filter((key) => !stops.has(key)) };
}

/** False: its key has stopped at it. */
async function applyAlone(
  { projection, names, log }: ShardDeps,
  { projectionId, shard }: Shard,
  { client, db }: Writing,
  event: SlicedEvent,
): Promise<boolean> {
  await client.query('SAVEPOINT event');
  try {
    await projection.apply(given([event]), client);
    await client.query('RELEASE SAVEPOINT event');
    return true;
  } catch (error) {
    if (mayPass(error)) throw error;
    await client.query('ROLLBACK TO SAVEPOINT event');
    await stop(db, names, { projectionId, shard, event, error: errorText(error) });
    const { position, type, id } = event;
    log.error(
      { projection: projection.name, event: id, position, type, err: describeError(error).message },
      'a projection could not apply an event; its key has stopped',
    );
    return false;
  }
}

/** Applies what a key has waiting, in order, until nothing waits or another event fails; but `skip`, an event. */
export async function resumeKey(
  deps: ShardDeps,
  shard: Shard,
  cursor: Cursor,
  { key, skip }: { readonly key: string; readonly skip: string | null },
): Promise<Cursor> {
  const { names, projection } = deps;
  const { projectionId } = shard;
  return moving(deps, shard, { cursor }, async (writing) => {
    const { db } = writing;
    const of = { projectionId, key, stream: projection.log.name, most: projection.page };
    for (const { nth, event } of await parked(db, names, of)) {
      if (event.id !== skip && !(await applyAlone(deps, shard, writing, event))) return;
      await unpark(db, names, { projectionId, key, nth });
    }
    await goOn(db, names, { projectionId, shard: shard.shard, key });
  });
}
