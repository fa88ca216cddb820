/**
 * What the shards of a process share: the session that listens, which lives while a shard is worked on and a moment
 * longer, and the watch that says when to look.
 */
import type pg from 'pg';
import { describeError } from '../../../job/errors/failure.js';
import type { Address } from '../../../postgres/connect/address.js';
import type { Logger } from '../../../postgres/log/log.js';
import type { Names } from '../../../postgres/names.js';
import { engineExecutor } from '../../../postgres/queryable.js';
import { eventChannel } from '../rows/hints.js';
import { type ListenDeps, listen } from './listen.js';
import { Watch } from './watch.js';

/** A shard's next turn usually begins sooner. */
const LINGER_MS = 1_000;

export interface SessionsDeps {
  readonly connection: Address;
  readonly names: Names;
  readonly pool: pg.Pool;
  readonly log: Logger;
}

export function newSessions({ connection, names, pool, log }: SessionsDeps) {
  const other = engineExecutor(pool, { prepare: false });
  let listening: ReturnType<typeof listen> | null = null;
  let turns = 0;
  let linger: NodeJS.Timeout | null = null;
  const watch = new Watch({ want: async (on) => listening?.want(on) ?? false });

  const reportError: ListenDeps['reportError'] = (what, error) =>
    log.warn(
      { what, err: describeError(error).message },
      'a projector cannot be notified; it polls',
    );

  async function start(): Promise<void> {
    const channel = await eventChannel(other, names);
    listening ??= listen({
      ...{ address: connection, channel, names, other, reportError },
      hinted: () => watch.hinted(),
      changed: () => watch.changed(),
    });
  }

  async function stop(): Promise<void> {
    const was = listening;
    listening = null;
    watch.changed();
    await was?.stop();
  }

  return {
    watch,
    stop,
    /** While `work` goes on, somebody listens. */
    async during<Value>(work: () => Promise<Value>): Promise<Value> {
      turns++;
      if (linger) clearTimeout(linger);
      linger = null;
      try {
        if (!listening) void start().catch(() => undefined);
        return await work();
      } finally {
        turns--;
        if (turns === 0) linger = setTimeout(() => void stop(), LINGER_MS).unref();
      }
    },
  };
}
