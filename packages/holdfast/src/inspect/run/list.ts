/**
 * Lists of runs, newest first, a page at a time. A page reads at most `scan` rows, however rare the runs are that are asked
 * for; `next` says where the search goes on. Runs with a tag have an index, runs that wait are found by what they wait for, and
 * due ones, where the queue is read by time and has few of them, by their time: so none reads the rest of the queue. The others
 * come from where jobs come from (list-sources.ts).
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import {
  int4,
  int8,
  type Row,
  statement,
  text,
  textArray,
  uuid,
} from '../../postgres/statement.js';
import { asleep } from '../../postgres/taken.js';
import { filterParams, filterText, type JobFilter } from '../job/filter.js';
import { SCAN_ROWS } from '../job/list.js';
import { rowsOf, type Source, sourceFor } from '../job/list-sources.js';
import { EXACT_PART, hasFewDue } from '../queue/pending.js';
import { instant, moment, parsed, recorded } from '../reading/columns.js';
import { inLines, LINES } from '../reading/lines.js';
import { type RunState, stateOfRow } from './state.js';
import { workflowTypes } from './types.js';
import { waitsOf } from './waits.js';

export interface RunFilter {
  /** Undefined: of every workflow. */
  readonly workflows?: readonly string[] | undefined;
  readonly states?: readonly RunState[] | undefined;
  readonly key?: string | undefined;
  readonly tag?: string | undefined;
}

export interface RunRange {
  readonly after: string | null;
  readonly limit: number;
  readonly scan?: number;
}

type RunSource = Source | 'open' | 'due' | 'tag';

const beyond = (id: string) => `${id} < coalesce($7::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')`;

function rowsOfRuns(source: RunSource): string {
  if (source === 'tag')
    return `SELECT i.*, i.id AS place FROM holdfast.inbox AS i
  WHERE i.headers ->> 'holdfast_tag' = $9::text AND i.headers ? 'holdfast_tag' AND ${beyond('i.id')}
  ORDER BY i.id DESC LIMIT $8::integer`;
  // The markers have the order, and the planner does not know that the rows come in it.
  if (source === 'open')
    return `SELECT i.*, o.id AS place FROM (
    SELECT DISTINCT s.run_id AS id FROM holdfast.inbox_steps AS s
    WHERE (s.place IS NULL OR s.kind = '!') AND ${beyond('s.run_id')}
    ORDER BY s.run_id DESC LIMIT $8::integer
  ) AS o
  CROSS JOIN LATERAL (SELECT i.* FROM holdfast.inbox AS i WHERE i.id = o.id LIMIT 1) AS i
  ORDER BY o.id DESC`;
  if (source === 'due')
    return `SELECT d.*, d.id AS place FROM (
    WITH RECURSIVE ${LINES}
    ${inLines({ columns: 'i.*', when: 'i.available_at <= now()', most: `${EXACT_PART}` })}
    UNION ALL
    -- Suspects are not in the indexes that claims read.
    SELECT s.* FROM holdfast.inbox AS s WHERE s.crashes > 1 AND s.available_at <= now()
  ) AS d
  WHERE ${beyond('d.id')}
  ORDER BY d.id DESC LIMIT $8::integer`;
  return `SELECT r.*, r.id AS place FROM (${rowsOf(source, 'newest')}) AS r`;
}

const MATCHES = `${filterText('j', 'created_at')}
  AND ($9::text IS NULL OR j.headers ->> 'holdfast_tag' = $9::text)
  AND ($10::text[] IS NULL OR ${stateOfRow('j')} = ANY ($10::text[]))
  -- Of every workflow: nobody may have registered it, but then it has taken a step.
  AND ($2::text[] IS NOT NULL OR j.type = ANY ($11::text[])
    OR EXISTS (SELECT FROM holdfast.inbox_steps AS s WHERE s.run_id = j.id))`;

const LISTED = {
  id: uuid,
  state: text,
  workflow: text,
  version: int4,
  key: text,
  tag: text.orNull,
  attempts: int4,
  created_at: moment,
  run_at: instant,
  claimed_by: text.orNull,
  died_at: recorded,
  last_error: text.orNull,
  waits: parsed,
} as const;

export type ListedRun = Row<typeof LISTED>;

const pageOf = (source: RunSource) =>
  statement({
    name: `list_runs_${source}`,
    text: `
WITH page AS MATERIALIZED (
  SELECT j.*, ${stateOfRow('j')} AS state
  FROM (
  ${rowsOfRuns(source)}
  ) AS j
  WHERE ${MATCHES}
  ORDER BY j.place DESC
  LIMIT $12::integer
)
SELECT p.id, p.state, p.type AS workflow, p.version, p.partition_key AS key, p.headers ->> 'holdfast_tag' AS tag, p.attempts,
  p.created_at, CASE WHEN p.available_at < '9999-12-31' THEN p.available_at END AS run_at, p.claimed_by,
  CASE p.status WHEN 'dead_letter' THEN p.history #>> '{-1,at}' END AS died_at, left(p.last_error, 500) AS last_error,
  CASE WHEN ${asleep('p')} THEN ${waitsOf('p.id')} END AS waits
FROM page AS p
ORDER BY p.place DESC`,
    columns: LISTED,
  });

const edgeOf = (source: RunSource) =>
  statement({
    name: `edge_of_runs_${source}`,
    text: `
SELECT count(*) FILTER (WHERE ${MATCHES}) AS matched, count(*) AS scanned, min(j.id::text)::uuid AS edge
FROM (
  ${rowsOfRuns(source)}
) AS j`,
    columns: { matched: int8, scanned: int8, edge: uuid.orNull },
  });

const both = (source: RunSource) => ({ page: pageOf(source), edge: edgeOf(source) });

export const runLists = {
  ...{ every: both('every'), dead: both('dead'), held: both('held'), key: both('key') },
  ...{ own: both('own'), open: both('open'), due: both('due'), tag: both('tag') },
};

const OPEN: readonly RunState[] = ['waiting', 'undoing'];

async function sourceOf(
  db: Executor,
  names: Names,
  { states, key, tag }: RunFilter,
  filter: JobFilter,
): Promise<RunSource> {
  if (tag !== undefined) return 'tag';
  const open = states?.every((state) => OPEN.includes(state)) ?? false;
  const source = await sourceFor(db, names, filter, true);
  const due = source === 'every' && states?.length === 1 && states[0] === 'due';
  if (due && (await hasFewDue(db, names))) return 'due';
  return open && (key === undefined || source === 'every') ? 'open' : source;
}

function jobFilter({ workflows, states, key }: RunFilter): JobFilter {
  const only = (state: RunState) => states?.length === 1 && states[0] === state;
  const status = only('dead_letter') ? 'dead_letter' : only('running') ? 'processing' : null;
  return { types: workflows, key, statuses: status === null ? undefined : [status] };
}

export interface RunPage {
  readonly runs: readonly ListedRun[];
  /** Where the search goes on; null: there is nothing further. */
  readonly next: string | null;
}

/** It asks twice, and must see the same rows both times. */
export async function listRuns(
  db: Executor,
  names: Names,
  filter: RunFilter,
  { after, limit, scan = SCAN_ROWS }: RunRange,
): Promise<RunPage> {
  const ofJobs = jobFilter(filter);
  const { page, edge } = runLists[await sourceOf(db, names, filter, ofJobs)];
  const types = filter.workflows ? [] : await workflowTypes(db, names);
  const params = [
    ...[...filterParams(ofJobs), after, scan, filter.tag ?? null],
    filter.states ? textArray(filter.states) : null,
    textArray(types.map(({ type }) => type)),
  ];
  const runs = await db.run(page, names, [...params, limit]);
  if (runs.length === limit) return { runs, next: runs.at(-1)?.id ?? null };
  const [seen] = await db.run(edge, names, params);
  return { runs, next: seen && seen.scanned >= scan ? seen.edge : null };
}
