/** The object that a body is given: checks what it asks for, and asks its turn for it. */
import { HoldfastError, invalid, shown } from '../../job/errors/holdfast-error.js';
import { checkDefinition, checkInteger } from '../../job/job.js';
import { checkKey } from '../../job/key.js';
import { type Duration, durationMs, MAX_DELAY_MS } from '../../job/options/duration.js';
import { checkKnown, type Known } from '../../job/options/known-options.js';
import { resolveRetry } from '../../job/retry.js';
import { checkSignal, type WorkflowDefinition } from '../definition.js';
import type {
  ChildrenOptions,
  Flow,
  RestartOptions,
  StepOptions,
  TransactionOptions,
  TryOptions,
  WaitOptions,
} from '../flow.js';
import { type Kind, ROUND, UNDOING } from '../marker.js';
import { childrenResults } from '../rows/children.js';
import type { AskOf, Tries } from './ask.js';
import { asMistake } from './end.js';
import { encoded, tryAsked } from './tries.js';
import type { Turn } from './turn.js';

const UNDONE = 'Nothing was done.';
const TRY = { maxAttempts: true, retry: true, timeout: true, undo: true } as const satisfies Known<
  StepOptions<unknown>
>;
const MAX_CHILDREN = 100_000;

type AnyFunction = (...args: never[]) => unknown;

function checkFunction(value: unknown, what: string): void {
  if (typeof value === 'function') return;
  throw invalid(`${what} must be a function, not ${shown(value)}. ${UNDONE}`);
}

function triesOf(options: TryOptions & { undo?: AnyFunction }, where: string): Tries {
  checkKnown(options, TRY, where, UNDONE);
  const { maxAttempts = 5, retry, timeout, undo } = options;
  if (undo !== undefined) checkFunction(undo, `undo of ${where}`);
  const delay = resolveRetry(retry);
  return {
    maxAttempts: checkInteger(maxAttempts, `maxAttempts of ${where}`, 1, 10_000),
    timeoutMs:
      timeout === undefined ? null : durationMs(timeout, `timeout of ${where}`, { min: 1 }),
    delayMs: (attempt, error) => delay(attempt, error).delayMs,
  };
}

/** Of a query of pg, as `(tx) => tx.query(…)` returns it: nobody wants it recorded, and JSON cannot hold it. */
const isResult = (value: unknown) =>
  value !== null && typeof value === 'object' && 'rowCount' in value && 'fields' in value;

const parsed = (value: string | null) => (value === null ? undefined : JSON.parse(value));

const checked = <Value>(check: () => Value): Value => {
  try {
    return check();
  } catch (error) {
    throw asMistake(error);
  }
};

export function flowOf<Signal extends object, Input>(
  turn: Turn,
  definition: WorkflowDefinition<never, Signal>,
): Flow<Signal, Input> {
  const { of } = turn;
  /** A mistake in the arguments rejects what was asked for. If the body lets it through, another try would not help. */
  const asked = (name: string, make: () => AskOf): Promise<unknown> => {
    const answer = (async () => {
      const of = checked(() => {
        checkKey(name, 'name of a step', 'nothing was done; use a short text such as "charge"');
        if (name === UNDOING || name === ROUND || name.includes('\u0001'))
          throw invalid(`A step cannot be named ${shown(name)}. ${UNDONE}`);
        return make();
      });
      return turn.ask(of);
    })();
    // The body may wait for something else first, or for nothing: that must not end the process.
    answer.catch(() => {});
    return answer;
  };
  const timer = (name: string, wait: () => NonNullable<AskOf['wait']>) =>
    asked(name, () => ({
      ...{ name, kind: 'z', effect: null, decode: () => undefined, wait: wait() },
    }));

  const flow = {
    ...{ id: of.id, type: of.type, version: of.version, createdAt: of.createdAt },
    ...{ headers: of.headers, log: of.log },
    get attempt() {
      return turn.attempt;
    },
    get signal() {
      return of.signal;
    },
    step(name: string, effect: AnyFunction, options: StepOptions<unknown> = {}) {
      return asked(name, () => {
        const tries = triesOf(options, `flow.step("${name}")`);
        checkFunction(effect, `The function of flow.step("${name}")`);
        const { undo } = options;
        const kind: Kind = undo ? 'S' : 's';
        return {
          ...{ name, kind, tries, decode: parsed },
          undo: undo && {
            inTransaction: false,
            run: (_, value, about) => undo(value as never, about),
          },
          effect: (ask) =>
            tryAsked(turn, ask, {
              ...{ name, kind, tries, nth: ask.nth, records: false, intent: undo !== undefined },
              once: async (about) => encoded(await effect(about as never), name, of.maxBytes),
            }),
        };
      });
    },
    transaction(name: string, work: AnyFunction, options: TransactionOptions<unknown> = {}) {
      return asked(name, () => {
        const tries = triesOf(options, `flow.transaction("${name}")`);
        checkFunction(work, `The function of flow.transaction("${name}")`);
        const { undo } = options;
        const kind: Kind = undo ? 'T' : 't';
        return {
          ...{ name, kind, tries, decode: parsed },
          undo: undo && {
            inTransaction: true,
            run: (tx, value, about) => undo(tx as never, value as never, about),
          },
          effect: (ask) =>
            tryAsked(turn, ask, {
              ...{ name, kind, tries, nth: ask.nth, records: true, intent: false },
              once: async (about, commits) => {
                const { nth } = ask;
                const attempt = about.attempt > 1 ? about.attempt : null;
                await turn.transact({ name, kind, nth, attempt }, async (tx) => {
                  const made = await work(tx as never, about as never);
                  const value = encoded(isResult(made) ? undefined : made, name, of.maxBytes);
                  commits();
                  return value;
                });
                return null;
              },
            }),
        };
      });
    },
    sleep: (name: string, duration: Duration) =>
      timer(name, () => ({
        ms: durationMs(duration, 'the duration of flow.sleep()', { max: MAX_DELAY_MS }),
      })),
    until: (name: string, time: Date) =>
      timer(name, () => {
        if (!(time instanceof Date) || Number.isNaN(time.getTime()))
          throw invalid(`The time of flow.until("${name}") must be a valid Date. ${UNDONE}`);
        return { at: time.toISOString() };
      }),
    wait(name: string, signals: string | readonly string[], options?: WaitOptions) {
      return asked(name, () => {
        checkKnown(options, { timeout: true }, `flow.wait("${name}")`, UNDONE);
        const several = Array.isArray(signals);
        const names: readonly string[] = several ? signals : [signals];
        if (names.length === 0) throw invalid(`flow.wait("${name}") names no signal. ${UNDONE}`);
        for (const one of names) checkSignal(definition, one, UNDONE);
        const timeout =
          options &&
          durationMs(options.timeout, `timeout of flow.wait("${name}")`, { max: MAX_DELAY_MS });
        return {
          ...{ name, kind: 'w' as const, effect: null },
          wait: { signals: names, ...(timeout !== undefined && { ms: timeout }) },
          decode: (value) => {
            if (value === null) return null;
            const taken = JSON.parse(value);
            return several ? taken : taken.value;
          },
        };
      });
    },
    children(
      name: string,
      job: unknown,
      inputs: readonly unknown[],
      options: ChildrenOptions<unknown> = {},
    ) {
      return asked(name, () => {
        checkDefinition(job, `The job of flow.children("${name}")`, UNDONE);
        checkKnown(options, { options: true }, `flow.children("${name}")`, UNDONE);
        if (!Array.isArray(inputs) || inputs.length > MAX_CHILDREN)
          throw invalid(
            `The inputs of flow.children("${name}") must be a list of at most ${MAX_CHILDREN}. ${UNDONE}`,
          );
        const own = options.options;
        return {
          ...{ name, kind: 'c' as const },
          effect: async (ask) => {
            const children = {
              name,
              nth: ask.nth,
              first: turn.journal.isEmpty,
              inputs,
              options: own,
            };
            try {
              await turn.ports.spawn({ ...children, job: job as never });
            } catch (error) {
              // Refused as it is, in each turn the same.
              const refused = error instanceof HoldfastError && error.code !== 'LEASE_LOST';
              if (!refused) throw error;
              return ask.reject(error);
            }
            turn.spawned(ask);
          },
          decode: async (value, outcomes) =>
            childrenResults(JSON.parse(value as string).count, await outcomes()),
        };
      });
    },
    async restart(input: unknown, options?: RestartOptions): Promise<never> {
      const { version = of.version } = options ?? {};
      checked(() => {
        checkKnown(options, { version: true }, 'flow.restart()', UNDONE);
        checkInteger(version, 'version of flow.restart()', 1, definition.version);
      });
      turn.restart(input, version);
      return new Promise(() => {});
    },
    async undo(reason: string): Promise<never> {
      checked(() => {
        if (typeof reason !== 'string' || reason === '')
          throw invalid(`flow.undo() needs a reason in words, not ${shown(reason)}. ${UNDONE}`);
      });
      turn.journal.askToUndo(reason);
      turn.pump();
      return new Promise(() => {});
    },
  };
  return flow as unknown as Flow<Signal, Input>;
}
