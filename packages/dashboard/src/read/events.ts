/**
 * The feed as a stream of server-sent events. A page that does not keep up misses snapshots and no memory is spent. A
 * stream ends after a while, and its page comes back by itself: so whoever is not let in any more sees nothing further.
 */
import { Refused, reply } from '../guard/reply.js';
import type { Feed, FeedEvent } from './feed.js';

const MAX_STREAMS = 500;
/** So many wait for a page that is slow. */
const BEHIND = 4;
const LASTS_MS = 10 * 60_000;

function lines(event: FeedEvent): string {
  const id = 'id' in event ? `id: ${event.id}\n` : '';
  return `event: ${event.event}\n${id}data: ${JSON.stringify(event.data)}\n\n`;
}

/** Snapshots of one poll are the same for all, and so is their text. */
let last: { readonly event: FeedEvent; readonly bytes: Uint8Array } | null = null;
function bytesOf(event: FeedEvent): Uint8Array {
  if (last?.event !== event) last = { event, bytes: new TextEncoder().encode(lines(event)) };
  return last.bytes;
}

export function eventStream(feed: Feed, lastId: string | null, lastsMs = LASTS_MS): Response {
  if (feed.listeners >= MAX_STREAMS)
    throw new Refused(503, `${MAX_STREAMS} pages are open already; close one.`);
  let unsubscribe = () => {};
  const endsAt = performance.now() + lastsMs;
  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        // A reader that was cut off comes back by itself, after this time.
        controller.enqueue(new TextEncoder().encode('retry: 2000\n\n'));
        unsubscribe = feed.subscribe((event) => {
          if (event === null || performance.now() > endsAt) {
            unsubscribe();
            controller.close();
          } else if ((controller.desiredSize ?? 0) > 0) controller.enqueue(bytesOf(event));
        }, lastId);
      },
      cancel: () => unsubscribe(),
    },
    { highWaterMark: BEHIND },
  );
  return reply(200, body, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store, no-transform',
    'x-accel-buffering': 'no',
  });
}
