/** What the routes share. Questions have few connections of their own, so no screen starves the host; acts use the Holdfast. */
import { type Holdfast, HoldfastError } from 'holdfast';
import {
  type Access,
  type BoundedLogger,
  boundedLogger,
  checkQueueName,
  closePool,
  deadLetters,
  type HoldfastParts,
  looking,
  markStopped,
  partsOf,
  plainPool,
  type Read,
  readableOverview,
  reading,
  ringOwner,
  runs,
  schedules,
  systemTime,
  unhandledJobs,
} from 'holdfast/internal';
import type pg from 'pg';
import { Redactor } from './guard/redact.js';
import { known } from './guard/reply.js';
import type { Settings } from './options.js';
import { Feed, POLL_MS } from './read/feed.js';
import { SharedAnswers } from './read/shared.js';

const CONNECTIONS = 3;
const CLOSE_MS = 500;
const LIMITS = { limitMs: 5_000, lockMs: 1_000 } as const;
/** Beyond the server's own limit: then the connection is half open. */
const QUERY_MS = 10_000;

export interface Context {
  readonly hf: Holdfast;
  readonly parts: HoldfastParts;
  readonly settings: Settings;
  /** Bounded: strangers may ask as often as they like. */
  readonly log: BoundedLogger;
  readonly access: Access;
  readonly read: Read;
  readonly look: ReturnType<typeof looking>;
  readonly letters: ReturnType<typeof deadLetters>;
  readonly schedules: ReturnType<typeof schedules>['schedules'];
  readonly runs: ReturnType<typeof runs>;
  readonly redactor: Redactor;
  readonly shared: SharedAnswers;
  readonly feed: Feed;
}

function partsFor(hf: Holdfast): HoldfastParts {
  const parts = partsOf(hf);
  if (parts) return parts;
  throw new HoldfastError(
    'OPTION_INVALID',
    'dashboard() was not given what holdfast() returns, or it comes from another copy of the package; ' +
      'no dashboard was made. Pass hf itself, not a copy of it.',
  );
}

export function contextOf(hf: Holdfast, settings: Settings, pollMs = POLL_MS): Context {
  const parts = partsFor(hf);
  const { schema, connection, log, maxPayloadBytes } = parts;
  let own: pg.Pool | null = null;
  const settled = { applicationName: 'holdfast dashboard', queryTimeoutMs: QUERY_MS };
  const pool = () => {
    own ??= plainPool({ ...connection, ...settled }, CONNECTIONS, log);
    return own;
  };
  const names = (queue: string) => ({ schema, queue: checkQueueName(queue) });
  const access: Access = {
    ...{ schema, connection, log, maxPayloadBytes, pool, names },
    limits: LIMITS,
  };
  const read: Context['read'] = (work) => reading(pool(), work, { schema, ...LIMITS });
  const redactor = new Redactor(settings.redact);
  const feed = new Feed({
    async overview() {
      const { seen, denied } = await readableOverview(read, schema);
      if (!seen) throw denied;
      return seen;
    },
    async stopped(seen) {
      const { stopped } = await read((db, part) =>
        markStopped(db, part, schema, seen.queues, ringOwner),
      );
      // It may quote the last error of a job.
      return stopped.map((one) => {
        const { reason, queue, types } = one;
        const text = redactor.text(reason.text, queue, reason.quotes ?? (types[0] as string));
        return { ...one, reason: { ...reason, text } };
      });
    },
    async unhandled(seen) {
      const queues = seen.queues.map(({ queue }) => queue.name);
      return (await unhandledJobs(pool(), schema, queues)).unhandled;
    },
    everyMs: pollMs,
    explain: (error) => known(error)?.message ?? 'The database could not be read.',
  });
  const bounded = boundedLogger(log, systemTime);
  parts.onClose(async () => {
    feed.close();
    bounded.flush();
    const closing = own;
    own = null;
    if (closing) await closePool(closing, CLOSE_MS);
  });
  return {
    ...{ hf, parts, settings, access, read, feed, log: bounded },
    look: looking(access),
    letters: deadLetters(access),
    schedules: schedules(access).schedules,
    runs: runs(access),
    redactor,
    shared: new SharedAnswers(),
  };
}
