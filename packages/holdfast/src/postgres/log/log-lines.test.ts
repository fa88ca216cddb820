/** The lines of the default logger, as a terminal and as anything else gets them. */
import { EventEmitter } from 'node:events';
import { expect, test } from 'vitest';
import { type LineStream, lineLogger } from './log-lines.js';

function stream(isTTY: boolean) {
  const lines: string[] = [];
  const target = Object.assign(new EventEmitter(), {
    isTTY,
    write: (text: string) => lines.push(text),
  }) as unknown as LineStream;
  return { lines, log: lineLogger(() => target) };
}

const FAILED = { component: 'worker', type: 'hello', attempt: 1, queues: ['a', 'b'], none: null };

test('a terminal gets one readable line', () => {
  const { lines, log } = stream(true);
  log.warn({ ...FAILED, err: 'Error: nobody is there' }, 'an attempt failed');
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatch(
    /^\d\d:\d\d:\d\d warn {2}an attempt failed {2}type=hello {2}attempt=1 {2}queues=a,b {2}err="Error: nobody is there"\n$/,
  );
});

test('nothing in a fact or a sentence acts on the terminal or begins a line of its own', () => {
  const { lines, log } = stream(true);
  const evil = 'one\ntwo\u001b[2J\u009b31m\u007f"';
  log.child?.({ type: evil }).error({ err: { deep: evil }, list: [evil] }, evil);
  expect(lines).toHaveLength(1);
  expect((lines[0] as string).slice(0, -1)).not.toMatch(/\p{Cc}/u);
});

test('anything else gets JSON, one object a line, with the facts of its parents', () => {
  const { lines, log } = stream(false);
  log.child?.({ component: 'worker' }).info({ err: 'one\ntwo' }, 'worker started');
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatch(/^\{.*\}\n$/);
  expect(JSON.parse(lines[0] as string)).toEqual({
    level: 'info',
    time: expect.stringMatching(/^\d{4}-.*Z$/),
    component: 'worker',
    err: 'one\ntwo',
    msg: 'worker started',
  });
});

test.each([true, false])('errors and BigInts are written in words (terminal: %s)', (isTTY) => {
  const { lines, log } = stream(isTTY);
  const err = Object.assign(new TypeError('no paper'), { code: 'EPAPER' });
  const endless: { self?: unknown } = {};
  endless.self = endless;
  log.error({ err, deep: { err, big: 2n ** 64n }, big: 9182n }, 'failed');
  log.error({ endless }, 'and goes on');
  expect(lines[0]?.match(/TypeError: no paper \(EPAPER\)/g)).toHaveLength(2);
  expect(lines[0]).toMatch(/18446744073709551616.*9182/);
  expect(lines[1]).toContain('and goes on');
  if (!isTTY) expect(JSON.parse(lines[1] as string)).toMatchObject({ endless: '(no JSON)' });
});

test('a stream that fails disturbs nobody, and listeners of others stay as they are', () => {
  const emitter = new EventEmitter();
  const failing = Object.assign(emitter, {
    write(_: string, written: (error: Error) => void) {
      written(new Error('EPIPE'));
      emitter.emit('error', new Error('EPIPE'));
    },
  }) as unknown as LineStream;
  const log = lineLogger(() => failing);
  for (let n = 0; n < 3; n++) log.warn({}, 'x');
  expect(emitter.listenerCount('error')).toBe(0);
  // As the pipe of a thread's stderr does: it passes on what nobody else listens to.
  const pipe = (error: Error) => {
    emitter.off('error', pipe);
    if (emitter.listenerCount('error') === 0) throw error;
  };
  emitter.prependListener('error', pipe);
  log.warn({}, 'x');
  expect(emitter.listenerCount('error')).toBe(0);
  const throwing = Object.assign(new EventEmitter(), {
    write() {
      throw new Error('EAGAIN');
    },
  }) as unknown as LineStream;
  lineLogger(() => throwing).warn({}, 'x');
});
