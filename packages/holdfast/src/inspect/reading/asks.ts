/** A question: its statement and how it is asked, in one. */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import {
  type Columns,
  type Param,
  type Row,
  type Statement,
  statement,
} from '../../postgres/statement.js';

type Question<C extends Columns, Given extends readonly unknown[]> = Statement<C> & {
  /** Its parameters, from what is given. Default: none. */
  readonly params?: (...given: Given) => readonly Param[];
};

/** A row of the answer. */
export type Answer<Ask extends (...given: never[]) => Promise<unknown>> =
  Awaited<ReturnType<Ask>> extends infer Found
    ? Found extends readonly (infer One)[]
      ? One
      : Found
    : never;

/** The names, for a question that is about no queue. */
export const ofSchema = (schema: string): Names => ({ schema, queue: 'inbox' });

/** `of`: the queue, or a schema for a question that is about no queue. */
export function asks<const C extends Columns, Given extends readonly unknown[] = []>({
  params,
  ...definition
}: Question<C, Given>) {
  const asked = statement(definition);
  const ask = (db: Executor, of: Names | string, ...given: Given): Promise<Row<C>[]> =>
    db.run(asked, typeof of === 'string' ? ofSchema(of) : of, params?.(...given) ?? []);
  return Object.assign(ask, { statement: asked });
}

/** For one that is answered with a row always. */
export function asksOne<const C extends Columns, Given extends readonly unknown[] = []>(
  question: Question<C, Given>,
) {
  const ask = asks(question);
  const one = async (...asked: Parameters<typeof ask>) => (await ask(...asked))[0] as Row<C>;
  return Object.assign(one, { statement: ask.statement });
}
