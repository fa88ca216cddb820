// A process that projects what the benchmark appends: totals by key, and when each event was applied.
import { holdfast } from 'holdfast';
import { eventLog, project, projection } from 'holdfast/projections';

const [url] = process.argv.slice(2);
const hf = holdfast({ connectionString: url, log: 'error' });
const log = eventLog(hf, 'bench');
const model = projection('bench_model', {
  log,
  create: (tx) =>
    tx.query(`CREATE TABLE totals (key text PRIMARY KEY, cents bigint NOT NULL, events bigint NOT NULL);
      CREATE TABLE applied (id uuid, applied_at timestamptz)`),
  apply: async (events, tx) => {
    await tx.query(
      `WITH given AS (
         SELECT * FROM jsonb_to_recordset($1::text::jsonb) AS e(id uuid, key text, cents bigint)
       ), stamped AS (
         INSERT INTO applied SELECT id, clock_timestamp() FROM given WHERE $2
       )
       INSERT INTO totals AS t SELECT key, sum(cents), count(*) FROM given GROUP BY key
       ON CONFLICT (key) DO UPDATE SET cents = t.cents + excluded.cents, events = t.events + excluded.events`,
      [
        JSON.stringify(events.map(({ id, key, data }) => ({ id, key, cents: data.cents }))),
        events.length < 1_000,
      ],
    );
  },
});
const worker = hf.worker();
await project(worker, [model]);
const running = worker.run();
process.send('ready');
await running;
await hf.close();
process.disconnect();
