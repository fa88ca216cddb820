/**
 * Fakes: what a test says that steps, undos and children come to. They take the place of functions only; what is recorded and
 * when is the engine's own. It counts how often each function ran, whether it was a fake or not.
 */
import { Cancel, DeadLetter, type Flow, type JobDefinition, type Worker } from 'holdfast';
import { nearest, type Route } from 'holdfast/internal';
import { invalid } from '../deps.js';
import { nameTransaction } from '../faults/steps.js';

/** What takes the place of functions of a workflow. */
export interface Fakes {
  /**
   * By the name of a step or a transaction, what takes the place of its function: the value that it returns, an Error that it
   * throws, or a function. Default: the functions of your body are called.
   */
  readonly steps?: Readonly<Record<string, unknown>>;
  /** By the name of a step, a function in place of its undo. Default: your undo; the undo of a faked step does nothing. */
  readonly undo?: Readonly<Record<string, unknown>>;
  /**
   * By the name of a `flow.children()`, how each child ends: the result of it, an Error that makes it a dead letter, or a
   * function of the input and its number that returns or throws. No handler is called. Default: `worker` handles them.
   */
  readonly children?: Readonly<Record<string, unknown>>;
  /** Has the handlers of the children that are not faked. It does not run. Default: none. */
  readonly worker?: Worker;
}

// biome-ignore lint/suspicious/noExplicitAny: whatever the engine passes goes to the function of the user
type AnyFunction = (...given: any[]) => unknown;
type Options = { readonly undo?: AnyFunction } | undefined;

/** The name of a function, in words. */
export const stepWord = (name: string) => `the step ${JSON.stringify(name)}`;
export const undoWord = (name: string) => `the undo of ${JSON.stringify(name)}`;

function asFunction(fake: unknown): AnyFunction {
  if (typeof fake === 'function') return fake as AnyFunction;
  return () => {
    if (fake instanceof Error) throw fake;
    return fake;
  };
}

const has = (fakes: Readonly<Record<string, unknown>> | undefined, name: string) =>
  fakes !== undefined && Object.hasOwn(fakes, name);

const KINDS = ['steps', 'undo', 'children'] as const;
type Kind = (typeof KINDS)[number];

/** `item 1` and `item 2` are near each other, and not mistyped. */
const withoutNumbers = (name: string) => name.replaceAll(/\d+/g, '#');

export class Faking {
  readonly #fakes: Fakes;
  /** How often each function ran, by its name in words. */
  readonly calls = new Map<string, number>();
  /** Steps that were faked. */
  readonly faked = new Set<string>();
  /** What the body asked for, by its name. */
  readonly #asked = {
    steps: new Set<string>(),
    undo: new Set<string>(),
    children: new Set<string>(),
  };
  /** By the name of a `flow.children()`, its job. */
  readonly #jobs = new Map<string, JobDefinition<never, unknown>>();

  constructor(fakes: Fakes) {
    for (const [name, fake] of Object.entries(fakes.undo ?? {}))
      if (typeof fake !== 'function')
        throw invalid(`undo of "${name}" must be a function; nothing was run.`);
    this.#fakes = fakes;
  }

  /** Queues to which children went. */
  get queues(): string[] {
    return [...this.#jobs.values()].map(({ queue }) => queue);
  }

  #unused(kind: Kind): string[] {
    return Object.keys(this.#fakes[kind] ?? {}).filter((name) => !this.#asked[kind].has(name));
  }

  /** Fakes under names that the body never asked for, such as `steps.charge`. */
  get unused(): string[] {
    return KINDS.flatMap((kind) => this.#unused(kind).map((name) => `${kind}.${name}`));
  }

  /** Of a run that ended: a fake whose name is nearly that of a function which was called in earnest is mistyped. */
  checkNames(): void {
    for (const kind of KINDS)
      for (const name of this.#unused(kind)) {
        const real = [...this.#asked[kind]].filter(
          (one) => !has(this.#fakes[kind], one) && withoutNumbers(one) !== withoutNumbers(name),
        );
        const meant = nearest(name, real);
        if (meant === '') continue;
        throw invalid(
          `${kind} has a fake "${name}", and the run ended without asking for it, so the function of the workflow was used.${meant}`,
        );
      }
  }

  /** The flow that a body gets. */
  flow(flow: Flow): Flow {
    const of = flow as unknown as Record<'step' | 'transaction' | 'children', AnyFunction>;
    const given = {
      step: (name: string, effect: AnyFunction, options: Options) =>
        of.step(name, ...this.#step(name, effect, options)),
      transaction: (name: string, work: AnyFunction, options: Options) => {
        const [does, rest] = this.#step(name, work, options);
        const named = (tx: object, about: unknown) => {
          nameTransaction(tx, `the transaction ${JSON.stringify(name)}`);
          return does(tx, about);
        };
        return of.transaction(name, typeof does === 'function' ? named : does, rest);
      },
      children: (name: string, job: JobDefinition<never, unknown>, ...rest: unknown[]) => {
        this.#jobs.set(name, job);
        this.#asked.children.add(name);
        return of.children(name, job, ...rest);
      },
    };
    return Object.assign(Object.create(flow), given);
  }

  #step(name: string, effect: AnyFunction, options: Options): [AnyFunction, Options] {
    const isFake = has(this.#fakes.steps, name);
    this.#asked.steps.add(name);
    if (isFake) this.faked.add(name);
    const does = isFake ? asFunction(this.#fakes.steps?.[name]) : effect;
    // What is no function is refused as in production.
    const counted = typeof does === 'function' ? this.#counted(stepWord(name), does) : does;
    return [counted, this.#options(name, isFake, options)];
  }

  #options(name: string, isFake: boolean, options: Options): Options {
    const undo = options?.undo;
    if (typeof undo !== 'function') return options;
    this.#asked.undo.add(name);
    const own = isFake ? () => undefined : undo;
    const does = has(this.#fakes.undo, name) ? asFunction(this.#fakes.undo?.[name]) : own;
    return { ...options, undo: this.#counted(undoWord(name), does) };
  }

  #counted(word: string, does: AnyFunction): AnyFunction {
    return (...given) => {
      this.calls.set(word, (this.calls.get(word) ?? 0) + 1);
      return does(...given);
    };
  }

  /** How a child is run; undefined: nobody said. `fakable`: its parent is the run of the test. */
  childRoute(type: string, step: string, n: number, fakable: boolean): Route | undefined {
    const job = this.#jobs.get(step);
    if (!fakable || !job || !has(this.#fakes.children, step))
      return this.#fakes.worker?.handlers.routes.get(type);
    const fake = asFunction(this.#fakes.children?.[step]);
    const handler = async ({ payload }: { payload: unknown }) => {
      try {
        return await fake(payload, n);
      } catch (error) {
        if (error instanceof Cancel || error instanceof DeadLetter) throw error;
        throw new DeadLetter(String((error as Error)?.message ?? error), { cause: error });
      }
    };
    return { job: job as unknown as Route['job'], handler: handler as unknown as Route['handler'] };
  }
}
