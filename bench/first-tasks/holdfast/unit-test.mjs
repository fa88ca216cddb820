import { testJob } from '@holdfast/testing';
import { holdfast, job } from 'holdfast';

const receipt = job('send_receipt');
const sent = [];
const handler = ({ payload }) => sent.push(payload.orderId);

const hf = holdfast();
await hf.migrate();
const { outcome } = await testJob(receipt, handler, { orderId: 1 }, { hf });
console.log(`> ${outcome} ${sent}`);
await hf.close();
