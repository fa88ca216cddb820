/**
 * The dashboard of the demo. Its address is known before there is a database, so that it can be the first line; until
 * there is one, it says that the demo is starting.
 */
import {
  type DashboardHandler,
  type DashboardServer,
  dashboard,
  type LabHook,
} from '@holdfast/dashboard';
import { DEFAULT_PORT, listen } from '@holdfast/dashboard/internal';
import type { Holdfast } from 'holdfast';

export interface DemoDashboard {
  readonly url: string;
  /** From now on it shows this one. */
  show(hf: Holdfast): void;
  close(): Promise<void>;
}

const STARTING = { 'content-type': 'text/plain; charset=utf-8', refresh: '1' };

/** On its usual port, or on any other if that is taken. */
async function onAnyPort(handle: DashboardHandler): Promise<DashboardServer> {
  const place = { host: '127.0.0.1', path: '/' };
  return listen(handle, { ...place, port: DEFAULT_PORT }).catch(() =>
    listen(handle, { ...place, port: 0 }),
  );
}

export async function openDashboard(lab: LabHook): Promise<DemoDashboard> {
  let handle: DashboardHandler | null = null;
  const server = await onAnyPort(
    async (request) =>
      (await handle?.(request)) ??
      new Response('The demo is starting …\n', { status: 503, headers: STARTING }),
  );
  return {
    url: server.url,
    show(hf) {
      handle = dashboard(hf, { loopback: true, write: true, actor: 'demo', lab });
    },
    close: () => server.close(),
  };
}
