/** Reading the log: the page behind a cursor, and the events that a stopped key has waiting. */
import type { Names } from '../../../postgres/names.js';
import type { Executor } from '../../../postgres/queryable.js';
import { int4, int8, json, statement, text, timestamp, uuid } from '../../../postgres/statement.js';
import type { LoggedEvent } from '../event.js';
import type { Cursor } from './cursor.js';

const eventColumns = {
  ...{ event_slice: int4, event_id: uuid, event_key: text, event_type: text, event_version: int4 },
  ...{ event_data: json, event_headers: json.orNull, event_occurred_at: timestamp },
};

export const readPage = statement({
  name: 'read_event_page',
  text: `
SELECT g.window_until::text, g.window_top, g.event_position, coalesce(g.event_slice, 0)::integer AS event_slice,
  g.event_id, g.event_key, g.event_type, g.event_version, g.event_data, g.event_headers, g.event_occurred_at
FROM holdfast.event_page($1::text, $2::integer, $3::integer, $4::text::pg_snapshot, $5::text::xid8, $6::bigint,
  $7::text::pg_snapshot, $8::bigint, $9::bigint, $10::integer) AS g`,
  columns: {
    ...{ window_until: text, window_top: int8, event_position: int8.orNull },
    ...{
      event_slice: int4,
      event_id: uuid.orNull,
      event_key: text.orNull,
      event_type: text.orNull,
    },
    ...{ event_version: int4.orNull, event_data: json.orNull, event_headers: json.orNull },
    event_occurred_at: timestamp.orNull,
  },
});

export interface Page {
  readonly until: string;
  readonly untilTop: number;
  readonly events: readonly SlicedEvent[];
}

export interface SlicedEvent extends LoggedEvent {
  readonly slice: number;
}

interface EventRow {
  readonly eventPosition: number | null;
  readonly eventSlice: number;
  readonly eventId: string | null;
  readonly eventKey: string | null;
  readonly eventType: string | null;
  readonly eventVersion: number | null;
  readonly eventData: string | null;
  readonly eventHeaders: string | null;
  readonly eventOccurredAt: string | null;
}

const eventOf = (row: EventRow): SlicedEvent => ({
  ...{ position: row.eventPosition as number, slice: row.eventSlice, id: row.eventId as string },
  ...{ key: row.eventKey as string, type: row.eventType as string },
  version: row.eventVersion as number,
  data: JSON.parse(row.eventData as string),
  headers: row.eventHeaders ? JSON.parse(row.eventHeaders) : {},
  occurredAt: new Date(row.eventOccurredAt as string),
});

export async function page(
  db: Executor,
  names: Names,
  stream: string,
  c: Cursor,
  most: number,
): Promise<Page> {
  const rows = await db.run(readPage, names, [
    ...[stream, c.firstSlice, c.lastSlice, c.readSnapshot, c.readMark, c.readTop],
    ...[c.untilSnapshot, c.untilTop, c.atPosition, most],
  ]);
  const [first] = rows;
  return {
    until: first?.windowUntil as string,
    untilTop: first?.windowTop as number,
    events: rows.flatMap((row) => (row.eventPosition === null ? [] : [eventOf(row)])),
  };
}

export const readParked = statement({
  name: 'read_parked_events',
  text: `
SELECT k.nth, e.position AS event_position, e.slice::integer AS event_slice, e.id AS event_id, e.key AS event_key,
  e.type AS event_type, e.version AS event_version, e.data AS event_data, e.headers AS event_headers,
  e.occurred_at AS event_occurred_at
FROM (
  SELECT * FROM holdfast.projection_parked AS k WHERE k.projection_id = $1::bigint AND k.key = $2::text
  ORDER BY k.nth LIMIT $4::integer
) AS k, LATERAL (
  SELECT * FROM holdfast.event_log AS l WHERE l.stream = $3::text AND l.slice = k.slice AND l.position = k.position
) AS e
ORDER BY k.nth`,
  columns: { nth: int8, event_position: int8, ...eventColumns },
});

/** The next events of a key that stopped, each with its number in the line. */
export async function parked(
  db: Executor,
  names: Names,
  of: { projectionId: number; key: string; stream: string; most: number },
): Promise<{ readonly nth: number; readonly event: SlicedEvent }[]> {
  const rows = await db.run(readParked, names, [of.projectionId, of.key, of.stream, of.most]);
  return rows.map((row) => ({ nth: row.nth, event: eventOf(row) }));
}
