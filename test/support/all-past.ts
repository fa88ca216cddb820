import { until } from './until.js';

type Ask = (text: string, params?: unknown[]) => Promise<Record<string, unknown>[]>;

/**
 * Waits until what was written so far is past for every session of the server: a transaction that is
 * still running anywhere, in another database too, keeps the versions before it from being pruned.
 */
export async function allPast(ask: Ask): Promise<void> {
  const [now] = await ask('SELECT pg_current_xact_id()::text AS id');
  await until('everything so far is past', async () => {
    const [row] = await ask('SELECT pg_snapshot_xmin(pg_current_snapshot()) > $1::xid8 AS over', [
      now?.id,
    ]);
    return row?.over;
  });
}
