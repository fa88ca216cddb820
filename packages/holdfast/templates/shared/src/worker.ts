// The worker process: `node dist/worker.js`. Start as many as you like.
import { close, hf } from './database.ts';
import { mail, receiptHandler, sendReceipt } from './jobs.ts';

await hf.worker().handle(sendReceipt, receiptHandler(mail)).run(); // until SIGTERM or Ctrl-C, and drained
await close();
