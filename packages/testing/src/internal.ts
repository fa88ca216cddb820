export { dumpFiles, INITDB } from './pglite/dump.js';
