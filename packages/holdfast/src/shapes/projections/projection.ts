/** What a projection is: how events become rows, and how its tables are made. */
import type pg from 'pg';
import { invalid, shown } from '../../job/errors/holdfast-error.js';
import { checkInteger } from '../../job/job.js';
import { checkType } from '../../job/key.js';
import { checkFlag, checkKnown, type Known } from '../../job/options/known-options.js';
import { checkSchemaName } from '../../postgres/names.js';
import type { LoggedEvent, LoggedEventOf } from './event.js';
import type { EventLog } from './log.js';

/** The transaction in which a projection writes: a client of `pg`, with the projection's schema first in its search path. */
export type ProjectionTx = Pick<pg.ClientBase, 'query'>;

/** Applies one event. */
export type ApplyEvent = (event: LoggedEvent<never>, tx: ProjectionTx) => unknown;

/** Applies several events at once, in their order. */
export type ApplyEvents<Events = Record<string, unknown>> = (
  events: readonly LoggedEventOf<Events>[],
  tx: ProjectionTx,
) => unknown;

/** Applies events one by one, each by the function of its type. */
export type ApplyByType<Events = Record<string, unknown>> = {
  readonly [Type in keyof Events & string]?: (
    event: LoggedEventOf<Events, Type>,
    tx: ProjectionTx,
  ) => unknown;
};

/**
 * Options of `projection()`. Give either `on` or `apply`.
 * @example
 * const orderTotals = projection('order_totals', {
 *   log: orders,
 *   create: (tx) => tx.query('CREATE TABLE totals (order_key text PRIMARY KEY, cents bigint NOT NULL)'),
 *   on: {
 *     'order.paid': (event, tx) =>
 *       tx.query('INSERT INTO totals VALUES ($1, $2)', [event.key, event.data.cents]),
 *   },
 * });
 */
export type ProjectionOptions<Events = Record<string, unknown>> = BuildOptions<Events> &
  ApplyOptions<NoInfer<Events>> &
  TableOptions;

/** How events are applied: one by one, or a page at once. */
type ApplyOptions<Events> =
  | {
      /** Applies the events of a type, one by one. Events of other types are passed over. */
      readonly on: ApplyByType<Events>;
      readonly apply?: undefined;
    }
  | {
      readonly on?: 'Give on or apply, not both.' | undefined;
      /** Applies a page of events at once: the faster way to rebuild. */
      readonly apply: ApplyEvents<Events>;
    };

/** Whether the projection makes its tables. */
type TableOptions =
  | {
      /**
       * Makes its tables, unqualified: they lie in a schema of their own for each build. Without it you see to the tables, and
       * a new version must write to other ones.
       */
      readonly create: (tx: ProjectionTx) => unknown;
      /** The schema in which the live tables are found. Only with `create`. Default: the name of the projection. */
      readonly schema?: string;
    }
  | {
      /** Left out: you see to the tables. */
      readonly create?: undefined;
      readonly schema?: 'Only with create, which makes the tables.' | undefined;
    };

/** What every projection may have. */
interface BuildOptions<Events> {
  /** The log that it reads. */
  readonly log: EventLog<Events>;
  /** Of its code and tables. A higher one is built beside the live one and then takes its place. Default 1. */
  readonly version?: number;
  /** How many workers can share it: 1, 2, 4, 8, 16 or 32. Fixed when it is first built. Default 8. */
  readonly shards?: 1 | 2 | 4 | 8 | 16 | 32;
  /** At most so many events in one transaction, 1 to 10,000. Default 1,000. */
  readonly page?: number;
  /** Whether a new version takes the place of the live one by itself once it has caught up. Default true. */
  readonly promote?: boolean;
}

/** What `projection()` makes. Pass it to `project()`. */
export interface Projection {
  /** Its name. */
  readonly name: string;
  /** Of its code and tables. */
  readonly version: number;
  /** The log that it reads. */
  readonly log: EventLog;
  /** How many workers can share it. */
  readonly shards: number;
  /** At most so many events in one transaction. */
  readonly page: number;
  /** Whether it takes the place of the live one by itself. */
  readonly promote: boolean;
  /** The schema of the live tables; null: it makes none. */
  readonly schema: string | null;
  /** Makes its tables; null: it makes none. */
  readonly create: ((tx: ProjectionTx) => unknown) | null;
  /** Applies a page. */
  readonly apply: ApplyEvents;
}

const OPTIONS = {
  ...{ log: true, version: true, on: true, apply: true, create: true, schema: true },
  ...{ shards: true, page: true, promote: true },
} as const satisfies Known<ProjectionOptions>;

/** The same before it is checked. */
interface Given extends BuildOptions<Record<string, unknown>> {
  readonly on?: Readonly<Record<string, ApplyEvent>>;
  readonly apply?: ApplyEvents;
  readonly create?: (tx: ProjectionTx) => unknown;
  readonly schema?: string;
}

const UNMADE = 'No projection was made.';

/** One after the other: events of a page may be of one key. */
const oneByOne =
  (on: Readonly<Record<string, ApplyEvent>>): ApplyEvents =>
  async (events, tx) => {
    for (const event of events) {
      const { type } = event as LoggedEvent;
      if (Object.hasOwn(on, type)) await on[type]?.(event, tx);
    }
  };

/**
 * Defines a projection: how the events of a log become a read model.
 * @example
 * const orderTotals = projection('order_totals', {
 *   log: orders,
 *   create: (tx) => tx.query('CREATE TABLE totals (order_key text PRIMARY KEY, cents bigint NOT NULL)'),
 *   on: {
 *     'order.paid': (event, tx) =>
 *       tx.query('INSERT INTO totals VALUES ($1, $2)', [event.key, event.data.cents]),
 *   },
 * });
 */
export function projection<Events = Record<string, unknown>>(
  name: string,
  options: ProjectionOptions<Events>,
): Projection {
  // It is a part of the name of a schema, and of a type of jobs.
  if (typeof name !== 'string' || !/^[a-z][a-z0-9_]{0,39}$/.test(name))
    throw invalid(
      `The projection's name is ${shown(name)}. Use up to 40 lower-case letters, digits and underscores. ${UNMADE}`,
    );
  const what = `projection("${name}")`;
  checkKnown(options, OPTIONS, what, UNMADE);
  const { log, on, apply, create, schema, shards = 8 } = options as unknown as Given;
  if (typeof log?.append !== 'function' || typeof log.name !== 'string')
    throw invalid(`The log of ${what} is ${shown(log)}. Make it with eventLog(). ${UNMADE}`);
  if ((on === undefined) === (apply === undefined))
    throw invalid(`${what} takes either \`on\` or \`apply\`. ${UNMADE}`);
  for (const [type, handler] of Object.entries(on ?? {})) {
    checkType(
      type,
      'the type of an event',
      'no projection was made; use a name such as "order.paid"',
    );
    if (typeof handler !== 'function')
      throw invalid(`on["${type}"] of ${what} is ${shown(handler)}, and no function. ${UNMADE}`);
  }
  for (const [key, given] of Object.entries({ apply, create }))
    if (given !== undefined && typeof given !== 'function')
      throw invalid(`${key} of ${what} is ${shown(given)}, and no function. ${UNMADE}`);
  if (![1, 2, 4, 8, 16, 32].includes(shards))
    throw invalid(`shards of ${what} is ${shown(shards)}. Use 1, 2, 4, 8, 16 or 32. ${UNMADE}`);
  if (schema !== undefined && create === undefined)
    throw invalid(`${what} has a schema and no \`create\`, which makes the tables. ${UNMADE}`);
  return {
    ...{ name, log, shards },
    version: checkInteger(options.version ?? 1, `version of ${what}`, 1, 2 ** 31 - 1),
    page: checkInteger(options.page ?? 1_000, `page of ${what}`, 1, 10_000),
    promote: checkFlag(options.promote, 'promote', UNMADE) ?? true,
    schema: create ? checkSchemaName(schema ?? name) : null,
    create: create ?? null,
    apply: apply ?? oneByOne(on ?? {}),
  };
}
