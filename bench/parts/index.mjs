// The parts, in the order in which a whole run takes them. Each is loaded when it runs: one that
// reaches behind Holdfast's public API and finds it changed does not stop the others.
import { PARTS } from '../arguments.mjs';

const load = (name) => async (context) => (await import(`./${name}.mjs`))[name](context);

export const parts = Object.fromEntries(PARTS.map((name) => [name, load(name)]));

/** These make databases of their own; a run of them alone prepares no other system. */
export const OWN_DATABASES = [
  ...[
    'steady',
    'dashboard',
    'fleet',
    'fleet-size',
    'flow',
    'inspect',
    'schedules',
    'shapes',
    'workflows',
  ],
];
