/** For the demo, of the same version only: not an interface that users may rely on. */
export { DEFAULT_PORT, listen } from './serve.js';
