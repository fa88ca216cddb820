/** The definition of a workflow: that of a job, with the signals that its runs may be sent. */
import { HoldfastError, invalid, shown } from '../job/errors/holdfast-error.js';
import { JOB_OPTIONS, type JobDefinition, type JobName, type JobOptions, job } from '../job/job.js';
import { checkKey } from '../job/key.js';
import { checkKnown } from '../job/options/known-options.js';
import { nearest } from '../job/options/nearest.js';

/**
 * The signals of a workflow: by name, what each carries.
 * @example workflow<Order, { approved: { by: string }; refused: string }>('checkout');
 */
export type Signals = Readonly<Record<string, unknown>>;

/**
 * Options of `workflow()`: those of a job. `version` is the newest body; a run keeps the version it began with.
 * @example const checkout = workflow<Order, { approved: { by: string } }>('checkout', { version: 2, signals: ['approved'] });
 */
export interface WorkflowOptions<Input, Payload, Signal extends object, Result>
  extends Omit<JobOptions<Input, Payload, Result>, 'upgrade'> {
  /** The names of its signals; others are rejected when they are sent. Default: any name is taken. */
  readonly signals?: readonly (keyof Signal & string)[];
}

/**
 * What `workflow()` makes: enqueue it as a job, and give it bodies with `worker.workflow()`.
 * @example const begun = await hf.enqueue(checkout, order);
 */
export interface WorkflowDefinition<
  Input,
  Signal extends object = Signals,
  Result = unknown,
  Payload = Input,
> extends JobDefinition<Input, Payload, Result> {
  /** The names of its signals; null: any. */
  readonly signals: readonly string[] | null;
  /** For the compiler only: what signals carry. */
  readonly carries?: Signal;
}

/**
 * Defines a workflow: a job whose handler may stop and go on, for days if it has to. Enqueue it as any job.
 * @example
 * const checkout = workflow<Order, { approved: { by: string } }, Receipt>('checkout');
 * const run = await hf.enqueue(checkout, order);
 * await hf.signal(checkout, run.id, 'approved', { by: 'kim' });
 */
export function workflow<
  Input = unknown,
  Signal extends object = Signals,
  Result = unknown,
  Payload = Input,
>(
  name: JobName<Input, Result>,
  options: WorkflowOptions<Input, Payload, Signal, Result> = {},
): WorkflowDefinition<Input, Signal, Result, Payload> {
  const known = { ...JOB_OPTIONS, signals: true } as const;
  checkKnown(options, known, `workflow("${String(name)}")`, 'No definition was made.');
  const { signals, ...ofJob } = options;
  if ('upgrade' in options)
    throw invalid(
      `workflow("${String(name)}") takes no upgrade: a run keeps the version it began with, so give worker.workflow() a body for each version. No definition was made.`,
    );
  if (signals !== undefined) checkSignals(String(name), signals);
  const made = job<Input, Result, Payload>(name, ofJob);
  const { read } = made;
  return Object.assign(made, {
    signals: signals ? [...signals] : null,
    // The schema is that of the newest version. Each older body gets its input as it was enqueued.
    read: (payload: unknown, stored: number) =>
      stored < made.version ? (payload as Payload) : read(payload, stored),
  });
}

const NO_DEFINITION = 'no definition was made; use a short text such as "approved"';

function checkSignals(type: string, signals: unknown): void {
  if (!Array.isArray(signals))
    throw invalid(
      `signals of workflow "${type}" must be a list of names, not ${shown(signals)}. No definition was made.`,
    );
  for (const one of signals) checkKey(one, `a signal of workflow "${type}"`, NO_DEFINITION);
}

export const isWorkflow = (definition: object): boolean => 'signals' in definition;

/** Throws if the definition says that it has no such signal. */
export function checkSignal(
  { type, signals }: Pick<WorkflowDefinition<never>, 'type' | 'signals'>,
  name: string,
  undone: string,
): void {
  checkKey(
    name,
    'name of the signal',
    'nothing was sent or waited for; use a short text such as "approved"',
  );
  if (signals === null || signals === undefined || signals.includes(name)) return;
  const meant = nearest(name, signals) || ` It has ${signals.join(', ') || 'none'}.`;
  throw new HoldfastError(
    'SIGNAL_UNKNOWN',
    `The workflow "${type}" has no signal "${name}".${meant} ${undone}`,
  );
}
