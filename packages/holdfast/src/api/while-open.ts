/**
 * Every method of a Holdfast until it is closed. Afterwards each call is rejected, whatever its arguments: by a rejection, because
 * who called it waits for a promise.
 */
import type { HoldfastError } from '../job/errors/holdfast-error.js';

type Method = (...given: readonly unknown[]) => unknown;

/** `closed`: what is thrown, or null. `throwing`: the methods that return no promise. */
export function whileOpen<Methods extends object>(
  methods: Methods,
  closed: () => HoldfastError | null,
  throwing: readonly string[] = [],
): Methods {
  const wrapped = Object.entries(methods).map(([name, one]: [string, unknown]) => {
    if (typeof one === 'object' && one !== null) return [name, whileOpen(one, closed)];
    if (typeof one !== 'function') return [name, one];
    const method: Method = (...given) => {
      const error = closed();
      if (error === null) return (one as Method)(...given);
      if (throwing.includes(name)) throw error;
      return Promise.reject(error);
    };
    return [name, method];
  });
  return Object.fromEntries(wrapped) as Methods;
}
