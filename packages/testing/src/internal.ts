export { INITDB, dumpFiles } from './pglite/dump.js';
