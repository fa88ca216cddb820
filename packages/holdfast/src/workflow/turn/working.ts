/** The turn, as far as those know it who try its steps and undo them. */

import type pg from 'pg';
import type { Marker, NewWait, Unplaced } from '../marker.js';
import type { Suspended } from '../rows/suspend.js';
import type { Ask } from './ask.js';
import type { Journal } from './journal.js';
import type { TurnOf, TurnPorts } from './ports.js';

export interface Working {
  readonly of: TurnOf;
  readonly ports: TurnPorts;
  readonly journal: Journal;
  readonly asks: ReadonlyMap<string, Ask>;
  readonly isOver: boolean;
  /** Writes a marker. The body hears of one that has a place; an intent has none. */
  record(marker: Unplaced, isIntent?: boolean): Promise<void>;
  /** A marker that commits together with what `work` writes. It returns the value as JSON. */
  transact(
    marker: Pick<Marker, 'name' | 'kind' | 'nth' | 'attempt'>,
    work: (tx: pg.PoolClient) => Promise<string | null>,
  ): Promise<void>;
  /** Puts the run to sleep, or takes what has arrived. */
  suspend(waits: readonly NewWait[]): Promise<Suspended>;
}
