// Classes of errors that are known by a brand instead of by identity. A program may hold two copies of this
// package, one of its handlers and one of its worker; a DeadLetter of the one must be a DeadLetter to the other. The
// brand is a symbol that all copies share, so `instanceof` means the same in all of them.

const BRAND = Symbol.for('holdfast.error');

/**
 * Gives a class its name and its brand. Both stand on the prototype: V8 writes the first line of a stack while
 * the constructor of Error runs, and an instance field would come too late and say "Error".
 */
export function brand(made: { readonly prototype: Error }, name: string): void {
  made.prototype.name = name;
  Object.defineProperty(made.prototype, BRAND, { value: name });
  Object.defineProperty(made, Symbol.hasInstance, {
    value(this: unknown, value: unknown): boolean {
      // Of a subclass it is asked as usual.
      if (this !== made) return Function.prototype[Symbol.hasInstance].call(this, value);
      return typeof value === 'object' && value !== null && Reflect.get(value, BRAND) === name;
    },
  });
}
