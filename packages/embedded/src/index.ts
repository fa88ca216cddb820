/**
 * `@holdfast/embedded`: a real PostgreSQL 18 from npm-shipped binaries, for demos, tests and local
 * development. It needs no installed server, no Docker and no account on the host, and it stops
 * when the process that started it ends, however that process ends. It is not meant for production:
 * there, give Holdfast a DATABASE_URL.
 */
import './version.js';

export type { EmbeddedErrorCode } from './errors.js';
export { EmbeddedPostgresError } from './errors.js';
export { type FoundServer, findEmbedded } from './find.js';
export type { EmbeddedOptions } from './options.js';
export type { EmbeddedServer } from './server/server.js';
export { startEmbedded } from './start.js';
