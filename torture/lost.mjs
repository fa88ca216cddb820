// What a failover lost, exactly: the rows that the dead primary has and the new one has not. The witness writes a row
// for each change of a job in the transaction that makes it, so a row that is missing is a transaction that is.
import { KEYED } from './actors/jobs.mjs';
import { pidOf } from './check/witness.mjs';
import { sqlUntil } from './server.mjs';

/** Commits of transactions that had begun long before. */
const EARLIER_MS = 30_000;

const WITNESS = `SELECT kind, job, generation::int, owner, at::text FROM torture.witness
  WHERE at > to_timestamp($1::float8 / 1000)`;
const MARKERS = ['inbox', KEYED]
  .map(
    (
      queue,
    ) => `SELECT 'marked' AS kind, job_id AS job, generation::int, NULL AS owner, created_at::text AS at
  FROM holdfast.${queue}_effects WHERE created_at > to_timestamp($1::float8 / 1000)`,
  )
  .join(' UNION ALL ');

async function factsOf(url, since) {
  const rows = [];
  for (const text of [WITNESS, MARKERS]) rows.push(...(await sqlUntil(url, text, [since])));
  return new Map(
    rows.map((row) => [`${row.kind}/${row.job}/${row.generation}/${row.owner}/${row.at}`, row]),
  );
}

/**
 * @param {string} oldUrl the primary that died
 * @param {string} newUrl the one that took over; it may have gone on meanwhile
 * @param {number} sinceMs a moment of the wall clock before which nothing was lost
 */
export async function lostBetween(oldUrl, newUrl, sinceMs) {
  const old = await factsOf(oldUrl, sinceMs - EARLIER_MS);
  const kept = await factsOf(newUrl, sinceMs - EARLIER_MS);
  const lost = { enqueued: [], claimed: [], settled: [], marked: [] };
  for (const [name, { kind, job, generation, owner }] of old) {
    if (kept.has(name)) continue;
    if (kind === 'enqueued') lost.enqueued.push(job);
    else if (kind === 'claimed') lost.claimed.push(`${job}/${generation}/${pidOf(owner)}`);
    else if (kind === 'marked') lost.marked.push(`${job}/${generation}`);
    else lost.settled.push(`${job}/${generation}`);
  }
  return lost;
}
