/**
 * Services that a shape adds to a worker: periodic work on one queue, in the election of its maintenance. So it is done once
 * in the fleet, and by workers of the shape only.
 */
import type { AddedService } from './service-loop.js';

const added = new WeakMap<object, AddedService[]>();

/** Before the worker runs. */
export function addService(worker: object, service: AddedService): void {
  added.set(worker, [...servicesOf(worker), service]);
}

export const servicesOf = (worker: object): readonly AddedService[] => added.get(worker) ?? [];
