/** A password in a URL: refused, and not repeated by the error, which ends in logs. */
import { expect, test } from 'vitest';
import { httpSink } from '../../../packages/holdfast/src/shapes/outbox/sinks/http.js';
import { reachable } from '../../../packages/holdfast/src/shapes/webhooks/guard/addresses.js';
import { newGuard } from '../../../packages/holdfast/src/shapes/webhooks/guard/guard.js';

function messageOf(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error('it was not refused');
}

const URLS = ['https://kim:hunter2@acme.example/hooks', 'https://hunter2@acme.example/hooks'];

test.each(URLS)('of an endpoint is refused and not repeated', (url) => {
  const message = messageOf(() => newGuard(reachable()).check(url, 'The URL', 'Nothing was done.'));
  expect(message).toContain('holds a user or a password');
  expect(message).not.toContain('hunter2');
});

test.each(URLS)('of an HTTP sink is refused when it is made, and not repeated', (url) => {
  const message = messageOf(() => httpSink({ url }));
  expect(message).toContain('holds a user or a password');
  expect(message).not.toContain('hunter2');
});
