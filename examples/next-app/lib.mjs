// One client for a process. Next.js evaluates modules again on every change in development; what hangs on
// globalThis survives that, so connections do not pile up.
import { holdfast, job } from 'holdfast';

function connect() {
  return holdfast({ connectionString: process.env.DATABASE_URL });
}

globalThis.myHoldfast ??= connect();
export const hf = globalThis.myHoldfast;

// Definitions are shared: the route imports them to enqueue, the worker to handle.
export const resizeImage = job('resize_image', { maxAttempts: 3 });
