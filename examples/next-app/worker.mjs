// The worker: a process of its own beside `next start`, from the same code base. In a container:
// `CMD ["node", "worker.mjs"]`. SIGTERM drains it.
import { hf, resizeImage } from './lib.mjs';

await hf.migrate();
const worker = hf.worker({ concurrency: 4 }).handle(resizeImage, async ({ payload, signal }) => {
  signal.throwIfAborted(); // a long handler looks now and then
  console.log(`resized ${payload.image}`);
});
await worker.run();
await hf.close();
