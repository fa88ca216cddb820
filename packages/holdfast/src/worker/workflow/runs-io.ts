/** What the turns of one queue ask of the database, together. */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { load, type Owner, record } from '../../workflow/rows/record.js';
import { suspend } from '../../workflow/rows/suspend.js';
import { type TogetherDeps, together } from './together.js';

export type RunsIo = ReturnType<typeof newRunsIo>;

/** Of one queue. */
export function newRunsIo(
  deps: TogetherDeps & { readonly engine: Executor; readonly names: Names },
) {
  const { engine, names } = deps;
  return {
    abandoned: deps.abandoned,
    reportError: deps.reportError,
    now: () => deps.time.now(),
    load: together(deps, 'reading the steps', (items: readonly { owner: Owner }[]) =>
      load(
        engine,
        names,
        items.map(({ owner }) => owner.id),
      ),
    ),
    record: together(deps, 'recording a step', (items: Parameters<typeof record>[2]) =>
      record(engine, names, items),
    ),
    suspend: together(deps, 'putting to sleep', (items: Parameters<typeof suspend>[2], again) =>
      suspend(engine, names, items, again),
    ),
  };
}
