/** `holdfast top`: what it shows, on a terminal and elsewhere. */
import { beforeEach, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { clearAll, plantJob, plantWorker } from '../support/cli-plant.js';
import { inTerminal, run, start, values } from '../support/cli-run.js';
import { testDatabase } from '../support/database.js';
import { Line } from '../support/line.js';
import { until } from '../support/until.js';

const db = testDatabase();
beforeEach(() => clearAll(db));
const env = () => ({ DATABASE_URL: db.url });

test('--once prints one frame: queues, then workers', async () => {
  const recent = { ms: 60_000, queues: { inbox: { failed: 150, completed: 10 } } };
  const metadata = { concurrency: 4, load: { running: 3, held: 3, recent } };
  await plantWorker(db, { id: 'w1', metadata });
  await plantJob(db, { status: 'processing', worker: 'w1' });
  const ran = await run(['top', '--once'], { env: env() });
  expect(ran).toMatchObject({ code: 0, err: '' });
  expect(ran.out).toMatch(/^QUEUE +PENDING .*IN\/S +OUT\/S +FAIL\/S +STATE$/m);
  expect(ran.out).toMatch(/^inbox +0 +0 +0 +1 .* 2\.5 +open$/m);
  expect(ran.out).toMatch(/^w1 +alive .* 3\/4 75 %/m);
  expect(ran.out).toMatch(/^holdfast .* handlers busy: 3\/4 75 %$/m);
  expect(ran.out).not.toContain('\u001b');
});

test('frames follow each other with the rates between them, until Ctrl-C', async () => {
  const running = start(['top', '--json', '--every', '300ms'], { env: env() });
  const frames = () =>
    values<{ queues: { inPerSecond?: number; pending: number }[] }>(
      running.seen.out.slice(0, running.seen.out.lastIndexOf('\n') + 1),
    );
  await until('a first frame', () => frames().length > 0);
  expect(frames()[0]?.queues[0]).not.toHaveProperty('inPerSecond');
  // Again and again: a session that does nothing more tells the server's statistics ten seconds later.
  const seen = await until(
    'a frame in which jobs came in',
    async () => {
      await db.hf.enqueueMany(Array.from({ length: 50 }, () => job('noop').item({})));
      return frames().find((frame) => (frame.queues[0]?.inPerSecond ?? 0) > 0);
    },
    { everyMs: 100 },
  );
  expect(seen.queues[0]?.pending).toBeGreaterThan(0);
  running.child.kill('SIGINT');
  expect((await running.ended).code).toBe(130);
});

test('on a terminal it draws over itself on a screen of its own, and q ends it', async () => {
  const ran = await inTerminal(['top', '--every', '200ms'], env(), 'q');
  expect(ran.code).toBe(0);
  expect(ran.out).toContain('\u001b[?1049h');
  expect(ran.out).toContain('\u001b[H');
  expect(ran.out.endsWith('\u001b[?7h\u001b[?25h\u001b[?1049l')).toBe(true);
});

test('a database that goes away is said and waited for', async () => {
  const line = await Line.to(db.url);
  await line.mend();
  const running = start(['top', '--json', '--every', '100ms'], { env: { DATABASE_URL: line.url } });
  const frames = () =>
    values(running.seen.out.slice(0, running.seen.out.lastIndexOf('\n') + 1)).length;
  await until('a frame', () => frames() > 0);
  line.cut();
  await until('the word that it is away', () => running.seen.err.includes('cannot be reached'));
  const before = frames();
  await line.mend();
  await until('another frame', () => frames() > before);
  running.child.kill('SIGINT');
  expect((await running.ended).code).toBe(130);
});
