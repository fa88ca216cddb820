/** The session on which a projecting process hears of new events; opened when it first has nothing to do. */
import type { Address } from '../../../postgres/connect/address.js';
import { newListener } from '../../../postgres/connect/listen.js';
import type { Names } from '../../../postgres/names.js';
import type { Executor } from '../../../postgres/queryable.js';
import { hint, wantHints } from '../rows/hints.js';
import type { Hints } from './watch.js';

export interface ListenDeps {
  readonly address: Address;
  readonly channel: string;
  readonly names: Names;
  /** For pings, on another connection. */
  readonly other: Executor;
  /** Events were appended. */
  readonly hinted: () => void;
  /** An operator has acted, or notifications may have been missed. */
  readonly changed: () => void;
  readonly reportError: (what: string, error: unknown) => void;
}

export function listen(deps: ListenDeps): Hints & { stop(): Promise<void> } {
  const { names } = deps;
  let wanted = false;
  let held = false;
  /** One after the other: a lock that is taken and one that is dropped must not cross. */
  let last: Promise<unknown> = Promise.resolve();
  const listener = newListener({
    ...{ address: deps.address, reportError: deps.reportError },
    channels: () => [deps.channel],
    prepare: async (db) => {
      held = wanted;
      if (held) await wantHints(db, names, true);
    },
    // What was written while nobody listened has sent nothing.
    up: deps.changed,
    down: deps.changed,
    notified: (_, word) => (word === '' ? deps.hinted() : deps.changed()),
    ping: (word) => hint(deps.other, names, word),
  });
  listener.start();
  return {
    want(on) {
      wanted = on;
      const work = last.then(async () => {
        if (listener.state !== 'on') return false;
        if (held === wanted) return true;
        held = wanted;
        const to = wanted;
        await listener.run((db) => wantHints(db, names, to));
        return true;
      });
      last = work.catch(() => undefined);
      return work;
    },
    stop: () => listener.stop(),
  };
}
