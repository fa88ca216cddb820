import './version.js';

export { type DashboardHandler, dashboard } from './dashboard.js';
export type { Redact, Shown } from './guard/redact.js';
export { type NodeHandler, nodeHandler } from './node.js';
export type { DashboardOptions, Visitor } from './options.js';
export type { LabAct, LabHook, LabState, LabWorker } from './pages/live-lab.js';
export { type DashboardServer, type ServeOptions, serveDashboard } from './serve.js';
