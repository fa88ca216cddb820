/** The types of values that were kept as JSON and come back. */

/**
 * A value as it comes back from its marker: what JSON makes of it. `unknown` for objects with methods. `undefined` as
 * well where a value may be too large, or hold what Postgres cannot store: then only the marker is kept.
 */
export type Stored<Value> = Json<Value> | (unknown extends Value ? never : Dropped<Value>);

// biome-ignore lint/suspicious/noConfusingVoidType: an effect may return nothing
type Dropped<Value> = Value extends number | boolean | null | void ? never : undefined;

/** What JSON makes of a value. `unknown` for objects with methods. */
export type Json<Value> = 0 extends 1 & Value
  ? Value
  : unknown extends Value
    ? unknown
    : // biome-ignore lint/suspicious/noConfusingVoidType: an effect may return nothing
      Value extends string | number | boolean | null | undefined | void
      ? Value
      : Value extends bigint
        ? string
        : Value extends symbol | AnyFunction
          ? undefined
          : Value extends { toJSON(...args: never[]): infer Made }
            ? Json<Made>
            : Value extends readonly unknown[]
              ? { [Index in keyof Value]: Json<Value[Index]> }
              : [Extract<Value[keyof Value], AnyFunction>] extends [never]
                ? { [Key in keyof Value]: Json<Value[Key]> }
                : unknown;

type AnyFunction = (...args: never[]) => unknown;

/** The same where `undefined` stands for no value, and something else is returned instead. */
export type Kept<Value> = unknown extends Value ? Json<Value> : Exclude<Json<Value>, undefined>;
