import { describe, expect, test } from 'vitest';
import { recordingLogger } from '../../../../../test/support/logger.js';
import { childLogger, redactingLogger } from './log.js';
import { type LogLevel, type LogOptions, loggerOf, safeLogger } from './logger-of.js';

const hideErr = (facts: Readonly<Record<string, unknown>>) =>
  'err' in facts ? { ...facts, err: '[hidden]' } : facts;

test('every line passes through redact, whatever its level and whoever writes it', () => {
  const kept = recordingLogger();
  const log = safeLogger(redactingLogger(kept, hideErr));
  log.debug({ err: 'secret' }, 'one');
  log.info({ err: 'secret', job: 'j' }, 'two');
  log.warn({ job: 'j' }, 'three');
  log.error({ err: 'secret' });
  childLogger(log, { err: 'secret', component: 'worker' }).warn({ what: 'x' }, 'four');
  childLogger(childLogger(log, { a: 1 }), { b: 2 }).warn({ err: 'secret' }, 'five');
  expect(kept.lines).toEqual([
    { level: 'debug', facts: { err: '[hidden]' }, message: 'one' },
    { level: 'info', facts: { err: '[hidden]', job: 'j' }, message: 'two' },
    { level: 'warn', facts: { job: 'j' }, message: 'three' },
    { level: 'error', facts: { err: '[hidden]' }, message: undefined },
    {
      level: 'warn',
      facts: { err: '[hidden]', component: 'worker', what: 'x' },
      message: 'four',
    },
    { level: 'warn', facts: { a: 1, b: 2, err: '[hidden]' }, message: 'five' },
  ]);
});

test('facts that a pino child binds are redacted too', () => {
  const bound: object[] = [];
  const kept = recordingLogger();
  const pino = {
    ...kept,
    child(facts: object) {
      bound.push(facts);
      return kept;
    },
  };
  childLogger(redactingLogger(pino, hideErr), { err: 'secret' }).warn({ err: 'secret' }, 'x');
  expect(bound).toEqual([{ err: '[hidden]' }]);
  expect(kept.lines).toEqual([{ level: 'warn', facts: { err: '[hidden]' }, message: 'x' }]);
});

test('a redact that throws costs the facts, not the line and not the work', () => {
  const kept = recordingLogger();
  const log = redactingLogger(kept, () => {
    throw new Error('secret');
  });
  log.warn({ err: 'secret' }, 'error');
  expect(kept.lines).toMatchObject([{ level: 'warn', message: 'error' }]);
  expect(JSON.stringify(kept.lines)).not.toContain('secret');
});

describe('the level', () => {
  const written = (options: LogOptions, env: Record<string, string> = {}) => {
    const kept = recordingLogger();
    const log = childLogger(loggerOf({ logger: kept, ...options }, env), { component: 'worker' });
    for (const level of ['debug', 'info', 'warn', 'error'] as const) log[level]({}, level);
    return kept.lines.map(({ level }) => level);
  };

  test('is that of the option, then of HOLDFAST_LOG; a logger of the caller has its own', () => {
    expect(written({})).toEqual(['debug', 'info', 'warn', 'error']);
    expect(written({ log: 'warn' })).toEqual(['warn', 'error']);
    expect(written({ log: 'silent' })).toEqual([]);
    expect(written({}, { HOLDFAST_LOG: 'error' })).toEqual(['error']);
    expect(written({ log: 'info' }, { HOLDFAST_LOG: 'silent' })).toEqual(['info', 'warn', 'error']);
    expect(written({}, { HOLDFAST_LOG: '' })).toHaveLength(4);
  });

  test('that does not exist is refused, with those that do', () => {
    expect(() => written({ log: 'loud' as LogLevel })).toThrow(
      'log is "loud", which is no level; nothing was started. It is one of debug, info, warn, error, silent.',
    );
    expect(() => written({}, { HOLDFAST_LOG: 'INFO' })).toThrow('HOLDFAST_LOG is "INFO"');
  });
});
