// app/api/images/route: a route handler of the App Router. It enqueues and answers at once. It starts no
// worker: serverless functions end with their answer, and handlers would end with them.
import { hf, resizeImage } from '../../../lib.mjs';

export async function POST(request) {
  const { image } = await request.json();
  // A client that repeats its request gets the same job.
  const idempotencyKey = request.headers.get('idempotency-key') ?? undefined;
  const { id, deduplicated } = await hf.enqueue(resizeImage, { image }, { idempotencyKey });
  return Response.json({ id }, { status: deduplicated ? 200 : 202 });
}

// The page asks how far it is: GET /api/images?id=…
export async function GET(request) {
  const job = await hf.job(new URL(request.url).searchParams.get('id')).catch((error) => {
    if (error.code === 'OPTION_INVALID') return null; // no id at all, or the id of nothing
    throw error;
  });
  return job ? Response.json({ status: job.status }) : new Response(null, { status: 404 });
}
