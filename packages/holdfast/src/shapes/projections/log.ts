/** The event log: an append-only table that commits with your data, and from which projections are built. */
import { checkTx } from '../../enqueue/transaction.js';
import { type Holdfast, partsOf } from '../../holdfast.js';
import { invalid, shown } from '../../job/errors/holdfast-error.js';
import { checkType } from '../../job/key.js';
import { type Duration, durationMs } from '../../job/options/duration.js';
import { checkKnown } from '../../job/options/known-options.js';
import { boundedExecutor } from '../../postgres/connect/bounded.js';
import { executor, type Transaction } from '../../postgres/queryable.js';
import { encodeEvents, type NewEventOf } from './event.js';
import { append, prune } from './rows/append.js';

/**
 * Options of `eventLog()`.
 * @example const orders = eventLog(hf, 'orders', { retention: '365d' });
 */
export interface EventLogOptions {
  /** Events that every projection has applied are deleted after so long. Default: events are kept. */
  readonly retention?: Duration;
}

/** An append-only log of events, made with `eventLog()`. `Events` maps their types to their data. */
export interface EventLog<Events = Record<string, unknown>> {
  /** Its name. */
  readonly name: string;
  /** The Holdfast object whose database it is in. */
  readonly hf: Holdfast;
  /** How long events are kept; null: always. */
  readonly retentionMs: number | null;
  /**
   * Appends up to 50,000 events; positions follow the order of the array. Returns their ids.
   * @example await orders.append([{ type: 'order.paid', key: 'order:9182', data: { cents: 1250 } }], { tx: client });
   */
  append(
    events: readonly NewEventOf<Events>[],
    options?: {
      /** Your transaction. Default: one of its own. */
      readonly tx?: Transaction;
    },
  ): Promise<string[]>;
  /**
   * Deletes up to 10,000 events that are older than the retention and that every projection has applied. Returns how many
   * went. Projecting workers call it by themselves.
   * @example while ((await orders.prune()) > 0);
   */
  prune(): Promise<number>;
}

const PRUNED_AT_ONCE = 9_984;

/**
 * Names an event log. All logs are in one table; a name costs nothing until something is appended. `Events` maps the types
 * of its events to their data.
 * @example
 * const orders = eventLog<{ 'order.paid': { cents: number } }>(hf, 'orders');
 * await orders.append([{ type: 'order.paid', key: 'order:9182', data: { cents: 1250 } }], { tx: client });
 */
export function eventLog<Events = Record<string, unknown>>(
  hf: Holdfast,
  name: string,
  options: EventLogOptions = {},
): EventLog<Events> {
  checkKnown(options, { retention: true }, 'eventLog()', 'No log was made.');
  const parts = partsOf(hf);
  if (!parts)
    throw invalid(`The first argument of eventLog() is ${shown(hf)}, not what holdfast() returns.`);
  const stream = checkType(
    name,
    'the name of a log',
    'no log was made; use a name such as "orders"',
  );
  const { retention } = options;
  const retentionMs =
    retention === undefined ? null : durationMs(retention, 'retention', { min: 1 });
  const names = { schema: parts.schema, queue: 'inbox' };
  const own = () => boundedExecutor(parts.pool(), { prepare: false });
  return {
    ...{ name: stream, hf, retentionMs },
    async append(events, call = {}) {
      checkKnown(call, { tx: true }, 'append()', 'Nothing was appended.');
      if ('tx' in call) checkTx(call.tx);
      const { ids, text } = encodeEvents(events as readonly unknown[], parts.maxPayloadBytes);
      if (ids.length === 0) return ids;
      await append(call.tx ? executor(call.tx) : own(), names, stream, text);
      return ids;
    },
    async prune() {
      if (retentionMs === null) return 0;
      return prune(own(), names, { stream, keepMs: retentionMs, most: PRUNED_AT_ONCE });
    },
  };
}
