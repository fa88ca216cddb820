/** `holdfast/projections`: events in an append-only log become read models. */
export type {
  AppendsEvents,
  LoggedEvent,
  LoggedEventOf,
  NewEvent,
  NewEventOf,
} from './event.js';
export { type EventLog, type EventLogOptions, eventLog } from './log.js';
export { projections } from './operate.js';
export { project } from './project.js';
export {
  type ApplyByType,
  type ApplyEvent,
  type ApplyEvents,
  type Projection,
  type ProjectionOptions,
  type ProjectionTx,
  projection,
} from './projection.js';
export type {
  BuildOptions,
  ProjectionInfo,
  Projections,
  RebaseOptions,
  ResumeOptions,
  StoppedKey,
} from './views.js';
