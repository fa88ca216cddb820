/**
 * `@holdfast/nest`: Holdfast in Nest. A module makes the client and closes it, providers inject it, and their methods
 * handle jobs on a worker that starts and ends with the application.
 */
import './version.js';

export { Handle, HandleMany } from './handle.js';
export { HOLDFAST, HoldfastModule, InjectHoldfast } from './module.js';
export type { HoldfastModuleAsyncOptions, HoldfastModuleOptions } from './options.js';
