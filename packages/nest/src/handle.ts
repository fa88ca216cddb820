/** `@Handle` and `@HandleMany`: they note on a method which job it handles. The worker reads the notes at its start. */
import 'reflect-metadata';
import type {
  BatchContext,
  BatchJob,
  BatchOptions,
  JobDefinition,
  JobHandler,
  Settled,
} from 'holdfast';

/** Of any job: the decorators have checked that the method fits it. */
// biome-ignore lint/suspicious/noExplicitAny: see above.
export type AnyJob = JobDefinition<any, any, any>;

export interface Note {
  readonly job: AnyJob;
  /** Of HandleMany. */
  readonly options?: BatchOptions;
}

const NOTES = Symbol.for('@holdfast/nest:handles');

/** What a decorator of a method is, to which the compiler holds the method. */
type MethodDecoratorOf<Method> = <Own extends Method>(
  target: object,
  name: string | symbol,
  descriptor: TypedPropertyDescriptor<Own>,
) => void;

const note =
  <Method>(added: Note): MethodDecoratorOf<Method> =>
  (_target, _name, descriptor) => {
    const method = descriptor.value as object;
    Reflect.defineMetadata(NOTES, [...notesOf(method), added], method);
  };

export const notesOf = (method: object): readonly Note[] =>
  (Reflect.getMetadata(NOTES, method) as readonly Note[] | undefined) ?? [];

/**
 * The method handles the jobs of this type, as with `worker.handle(job, method)`.
 * @example `@Handle(sendReceipt) send({ payload }: HandlerContext<Receipt>) { return this.mail.send(payload); }`
 */
export const Handle = <Input, Payload, Result>(job: JobDefinition<Input, Payload, Result>) =>
  note<JobHandler<Payload, NoInfer<Result>>>({ job });

/**
 * The method handles several jobs of this type at once, as with `worker.handleMany(job, options, method)`.
 * @example `@HandleMany(sendReceipt, { max: 50 }) send(jobs: readonly BatchJob<Receipt>[]) { return this.mail.sendAll(jobs); }`
 */
export const HandleMany = <Input, Payload, Result>(
  job: JobDefinition<Input, Payload, Result>,
  options: BatchOptions,
) =>
  note<
    (
      jobs: readonly BatchJob<Payload, NoInfer<Result>>[],
      context: BatchContext<Payload, NoInfer<Result>>,
    ) => undefined extends Result ? unknown : readonly Settled[] | Promise<readonly Settled[]>
  >({ job, options });
