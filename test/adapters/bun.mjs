/** Run by Bun: enqueues in transactions of Bun.sql, and prints what became of each as one JSON value. */
import { SQL } from 'bun';
import { fromPostgresJs } from '../../packages/holdfast/dist/adapters.js';
import { holdfast, job } from '../../packages/holdfast/dist/index.js';

const url = process.env.DATABASE_URL;
const sql = new SQL(url);
const hf = holdfast({ connectionString: url });
const work = job('work');
const AWKWARD = `it's "so" \\ \\n ? $1 {a,b} NULL 🦀 é`;
const keyed = (payload) =>
  work.item(payload, {
    partitionKey: AWKWARD,
    idempotencyKey: AWKWARD,
    headers: { trace: AWKWARD },
  });
const said = {};
const codeOf = (error) => error.code ?? error.message;

await sql.begin(async (tx) => {
  await tx`INSERT INTO orders VALUES (${1})`;
  const items = [work.item([AWKWARD, null, 1]), keyed({ text: AWKWARD })];
  said.committed = await hf.enqueueMany(items, { tx: fromPostgresJs(tx) });
});
said.rolledBack = await sql
  .begin(async (tx) => {
    await tx`INSERT INTO orders VALUES (${2})`;
    await hf.enqueue(work, 'gone', { idempotencyKey: 'gone', tx: fromPostgresJs(tx) });
    throw new Error('the business says no');
  })
  .catch(codeOf);
await sql.begin(async (tx) => {
  await tx`INSERT INTO orders VALUES (${3})`;
  const items = [work.item(1, { idempotencyKey: 'new' }), keyed('other')];
  said.mismatch = await hf.enqueueMany(items, { tx: fromPostgresJs(tx) }).catch(codeOf);
  await tx`INSERT INTO orders VALUES (${4})`;
});
said.refused = [];
for (const enqueue of [
  () => hf.enqueue(work, {}, { tx: fromPostgresJs(sql) }),
  () => hf.enqueue(work, {}, { tx: sql }),
]) {
  said.refused.push(await Promise.resolve().then(enqueue).catch(codeOf));
}
console.log(JSON.stringify(said));
await sql.end();
await hf.close();
