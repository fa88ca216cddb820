import type { Incident } from '../incident.js';
import { FLOW } from './flow.js';
import { LOCKS } from './locks.js';
import { RIGHTS } from './rights.js';
import { SCHEMA } from './schema.js';
import { SERVER } from './server.js';
import { WORK } from './work.js';

export const INCIDENTS: readonly Incident[] = [
  ...WORK,
  ...FLOW,
  ...LOCKS,
  ...RIGHTS,
  ...SCHEMA,
  ...SERVER,
];
