// Imports a CSV file: a job for every line, in batches, then works until all are done and ends.
// Run it twice, or kill it in the middle and run it again: every line is imported once, because its
// idempotency key is made of the file's name and of what the line says. A corrected line is a new job.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { basename } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';
import { holdfast, job } from 'holdfast';
import pg from 'pg';

const file = process.argv[2];
if (!file) {
  console.error('usage: node main.mjs FILE.csv');
  process.exit(2);
}
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const hf = holdfast({ pool, log: 'warn' });
await hf.migrate();
await hf.createQueue('imports'); // one of its own: the import is over when it is empty
await pool.query('CREATE TABLE IF NOT EXISTS customers (email text PRIMARY KEY, name text)');

const importLine = job('import_line', {
  queue: 'imports',
  maxAttempts: 3,
  retry: { base: '100ms' },
});

const BATCH = 1_000;
let [added, known] = [0, 0];
async function enqueue(lines) {
  const keyOf = (line) => `${basename(file)}:${createHash('sha256').update(line).digest('hex')}`;
  const jobs = lines.map((line) => importLine.item({ line }, { idempotencyKey: keyOf(line) }));
  for (const { deduplicated } of await hf.enqueueMany(jobs)) deduplicated ? known++ : added++;
}

const batch = [];
let number = 0;
for await (const line of createInterface({ input: createReadStream(file) })) {
  if (number++ > 0 && line !== '') batch.push(line); // the first line is the header
  if (batch.length === BATCH) await enqueue(batch.splice(0));
}
await enqueue(batch);
console.log(`${added} lines enqueued, ${known} were there already`);

const worker = hf.worker({ concurrency: 50 }).handle(importLine, (ctx) =>
  // The row and the completion commit together: a line is imported exactly once.
  ctx.transaction((tx) =>
    tx.query('INSERT INTO customers VALUES ($1, $2)', ctx.payload.line.split(',')),
  ),
);
// Stop when nothing waits and nothing runs; what failed for good stays as dead letters.
let over = false; // also by Ctrl-C
const running = worker.run().finally(() => {
  over = true;
});
while (!over) {
  const { queues } = await hf.gauges();
  const imports = queues.find(({ queue }) => queue === 'imports');
  if (imports.pending + imports.processing === 0) await worker.stop();
  else await setTimeout(200);
}
await running;

const { rows } = await pool.query('SELECT count(*) FROM customers');
console.log(`${rows[0].count} customers, ${worker.stats.dead_letter} lines failed`);
await hf.close();
await pool.end();
