/** A line that is cut says nothing, and loses nothing. */
import { once } from 'node:events';
import net from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { until } from '../../../../test/support/until.js';
import { type Line, openLine } from './line.js';

interface Ends {
  readonly line: Line;
  readonly near: net.Socket;
  readonly far: net.Socket;
}

/** A server that keeps its side of the connection, and a client on the other end of the line. */
async function connected(): Promise<Ends> {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as net.AddressInfo;
  const line = await openLine(`postgres://user@127.0.0.1:${port}/db`);
  const near = net.connect(Number(new URL(line.url).port), '127.0.0.1');
  const [far] = (await once(server, 'connection')) as [net.Socket];
  onTestFinished(() => {
    line.close();
    near.destroy();
    far.destroy();
    server.close();
  });
  return { line, near, far };
}

function hears(socket: net.Socket): { text: string } {
  const heard = { text: '' };
  socket.on('data', (data) => {
    heard.text += data;
  });
  return heard;
}

test('the URL names the same user and database, and another port', async () => {
  const { line } = await connected();
  expect(line.url).toMatch(/^postgres:\/\/user@127\.0\.0\.1:\d+\/db$/);
});

test('what is sent while it is cut arrives when it is mended, in both directions', async () => {
  const { line, near, far } = await connected();
  const [atFar, atNear] = [hears(far), hears(near)];
  near.write('one ');
  await until('the first word is there', () => atFar.text === 'one ');
  line.cut();
  near.write('two');
  far.write('three');
  // A line that is whole answers: by then the words on the cut one would long be there.
  const other = await connected();
  const elsewhere = hears(other.far);
  other.near.write('ping');
  await until('the whole line carries', () => elsewhere.text === 'ping');
  expect([atFar.text, atNear.text]).toEqual(['one ', '']);
  line.mend();
  await until('both words arrive', () => atFar.text === 'one two' && atNear.text === 'three');
});

test('an end does not pass while it is cut', async () => {
  const { line, near, far } = await connected();
  let ended = false;
  far.on('close', () => {
    ended = true;
  });
  far.resume();
  line.cut();
  near.destroy();
  const other = await connected();
  other.far.resume();
  other.near.destroy();
  await once(other.far, 'close');
  expect(ended).toBe(false);
  line.mend();
  await until('the end passes', () => ended);
});
