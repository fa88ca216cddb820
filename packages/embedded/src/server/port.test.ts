import { once } from 'node:events';
import { createServer } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { freePort } from './port.js';

test('keeps the preferred port while it is free, and leaves it when it is taken', async () => {
  const port = await freePort();
  expect(await freePort(port)).toBe(port);
  const squatter = createServer().listen(port, '127.0.0.1');
  onTestFinished(() => void squatter.close());
  await once(squatter, 'listening');
  expect(await freePort(port)).not.toBe(port);
});
