// The least that a queue on Postgres can do between an insert and a handler: a listener of its own, and one
// committed UPDATE by primary key that takes the row. Started with `fork`, told the address by its argument.
import pg from 'pg';
import { clock } from '../clock.mjs';

const { url } = JSON.parse(process.argv[2]);
const [ear, hand] = [new pg.Client(url), new pg.Client(url)];
await ear.connect();
await hand.connect();
ear.on('notification', async ({ payload }) => {
  await hand.query({
    name: 'take',
    text: 'UPDATE bare_jobs SET taken_at = now() WHERE n = $1 AND taken_at IS NULL',
    values: [payload],
  });
  process.send({ kind: 'stamp', n: `bare ${payload}`, at: clock() });
});
await ear.query('LISTEN bare_jobs');
process.on('disconnect', () => process.exit());
process.send({ kind: 'ready' });
