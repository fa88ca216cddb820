/** What the parts of one queue share, beside what all parts of the worker do. */
import type { SharedDeps } from './deps.js';
import type { Keeper } from './lease/keeper.js';
import type { ContextDeps } from './run/context-deps.js';
import type { Quarantine } from './run/quarantine.js';
import type { Settler } from './settle/settler.js';

export interface QueueDeps extends SharedDeps {
  readonly keeper: Keeper;
  readonly quarantine: Quarantine;
  readonly settler: Settler;
  readonly context: ContextDeps;
}
