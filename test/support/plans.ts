/** Plans as Postgres explains them, on a session with the settings of a worker. */
import pg from 'pg';
import { engineOptions } from '../../packages/holdfast/src/postgres/connect/pool.js';
import type { Executor } from '../../packages/holdfast/src/postgres/queryable.js';

export interface PlanNode {
  'Node Type': string;
  'Relation Name'?: string;
  'Index Name'?: string;
  'Shared Hit Blocks': number;
  'Shared Read Blocks': number;
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  Plans?: PlanNode[];
}

/** Without autovacuum: statistics must be exactly as stale as each test makes them. */
export async function planSession(url: string): Promise<pg.Client> {
  const session = new pg.Client({ connectionString: url, options: engineOptions() });
  session.on('error', () => undefined);
  await session.connect();
  await session.query('ALTER TABLE holdfast.inbox SET (autovacuum_enabled = off)');
  return session;
}

const literal = (value: unknown) =>
  value === null ? 'NULL' : `'${String(value).replaceAll("'", "''")}'`;

/** Runs a prepared statement and returns its plan. */
export async function explained(
  session: pg.Client,
  name: string,
  params: readonly unknown[],
): Promise<PlanNode> {
  const list = params.length > 0 ? `(${params.map(literal).join(', ')})` : '';
  const { rows } = await session.query(
    `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE ${name}${list}`,
  );
  return rows[0]['QUERY PLAN'][0].Plan;
}

function* nodes(node: PlanNode): Generator<PlanNode> {
  yield node;
  for (const child of node.Plans ?? []) yield* nodes(child);
}

/** How many rows all its parts handed on: what it did, whatever the machine was at meanwhile. */
export const rowsHandled = (plan: PlanNode): number =>
  [...nodes(plan)].reduce((sum, node) => sum + node['Actual Rows'] * node['Actual Loops'], 0);

/** How the queue table is reached in a plan: `Index Scan inbox_claim_idx`, `Tid Scan`, … */
export function accesses(plan: PlanNode): string[] {
  return [...nodes(plan)]
    .filter((node) => node['Relation Name'] === 'inbox' && node['Node Type'].endsWith('Scan'))
    .map((node) => [node['Node Type'], node['Index Name']].filter(Boolean).join(' '))
    .sort();
}

/** Whether the whole queue table was read. A scan that a plan has and never begins reads nothing. */
export const readsWholeTable = (plan: PlanNode): boolean =>
  [...nodes(plan)].some((node) => node['Node Type'] === 'Seq Scan' && node['Actual Loops'] > 0);

export const buffers = (plan: PlanNode) => plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];

/** The parameters that a verb passes with its first statement, caught on their way. */
export async function paramsOf(verb: (db: Executor) => Promise<unknown>): Promise<unknown[]> {
  let caught: readonly unknown[] | null = null;
  const catcher = {
    run: async (_: unknown, __: unknown, params: readonly unknown[]) => {
      caught ??= params;
      // Whatever else it is asked for is null.
      return [new Proxy({}, { get: (_row, name) => (name === 'epoch' ? 0 : null) })];
    },
  };
  await verb(catcher as never);
  return [...((caught as readonly unknown[] | null) ?? [])];
}

/**
 * The plan of a prepared statement that is run twice and rolled back, as the cheaper run had it. What a run reads of the
 * catalog counts too: where keys take turns, the first claim of a session reads 1,520 buffers and the next ones 206.
 */
export async function explainedAndUndone(
  session: pg.Client,
  name: string,
  params: readonly unknown[],
): Promise<PlanNode> {
  const first = await undone(session, name, params);
  const second = await undone(session, name, params);
  return buffers(second) < buffers(first) ? second : first;
}

async function undone(
  session: pg.Client,
  name: string,
  params: readonly unknown[],
): Promise<PlanNode> {
  await session.query('BEGIN');
  try {
    return await explained(session, name, params);
  } finally {
    await session.query('ROLLBACK');
  }
}
