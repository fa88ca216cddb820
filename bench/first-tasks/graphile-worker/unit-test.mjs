import { makeWorkerUtils, runOnce } from 'graphile-worker';

const sent = [];
const send_receipt = ({ orderId }) => void sent.push(orderId);

const connectionString = process.env.DATABASE_URL;
const utils = await makeWorkerUtils({ connectionString });
await utils.addJob('send_receipt', { orderId: 1 });
await runOnce({ connectionString, taskList: { send_receipt } });
const left = await utils.withPgClient((client) => client.query('SELECT FROM graphile_worker.jobs'));
console.log(`> ${left.rowCount === 0 ? 'completed' : 'failed'} ${sent}`);
await utils.release();
