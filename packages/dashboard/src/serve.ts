/** A server for the dashboard alone, on 127.0.0.1: on any other address it does not start without a token or a sign-in. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Holdfast } from 'holdfast';
import { HoldfastError } from 'holdfast';
import { checkInteger, checkKnown, type Known } from 'holdfast/internal';
import { type DashboardHandler, dashboard } from './dashboard.js';
import { isLoopback } from './guard/guard.js';
import { nodeHandler } from './node.js';
import { DASHBOARD_OPTIONS, type DashboardOptions } from './options.js';

export const DEFAULT_PORT = 7433;

/** Where `serveDashboard()` listens, and what it shows. */
export interface ServeOptions extends Omit<DashboardOptions, 'loopback'> {
  /** The address to listen on. Default 127.0.0.1. */
  readonly host?: string;
  /** The port; 0: any that is free. Default 7433. */
  readonly port?: number;
}

const { loopback: _, ...COMMON } = DASHBOARD_OPTIONS;
const OPTIONS = { ...COMMON, host: true, port: true } as const satisfies Known<ServeOptions>;

/** A running dashboard. */
export interface DashboardServer {
  /** Where it is. */
  readonly url: string;
  readonly port: number;
  /** Stops serving; resolves when every request has ended. */
  close(): Promise<void>;
}

/**
 * Serves the dashboard on a port of its own.
 * @example
 * const { url, close } = await serveDashboard(hf, { port: 7433 });
 */
export async function serveDashboard(
  hf: Holdfast,
  options: ServeOptions = {},
): Promise<DashboardServer> {
  checkKnown(options, OPTIONS, 'serveDashboard()', 'No dashboard was started.');
  const { host = '127.0.0.1', port = DEFAULT_PORT, ...rest } = options;
  if (!isLoopback(host) && !rest.token && !rest.authorise)
    throw new HoldfastError(
      'OPTION_INVALID',
      `On ${host} others could open the dashboard; it was not started. ` +
        'Pass token or authorise, or leave host out: then it is for this machine only.',
    );
  const loopback = isLoopback(host) && !rest.token && !rest.authorise;
  const handle = dashboard(hf, loopback ? { ...rest, loopback } : rest);
  return listen(handle, {
    host,
    port: checkInteger(port, 'port', 0, 65_535),
    path: rest.path ?? '/',
  });
}

export interface Place {
  readonly host: string;
  readonly port: number;
  readonly path: string;
}

export async function listen(handle: DashboardHandler, place: Place): Promise<DashboardServer> {
  const server = createServer(nodeHandler(handle));
  await started(server, place);
  const { port } = server.address() as AddressInfo;
  const host = place.host.includes(':') ? `[${place.host}]` : place.host;
  return {
    url: `http://${host}:${port}${place.path.endsWith('/') ? place.path : `${place.path}/`}`,
    port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function started(server: Server, { host, port }: Place): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) => {
      const taken = cause.code === 'EADDRINUSE';
      const why = taken ? 'another program listens there' : cause.message;
      const fix = taken ? ' Choose another port, or 0 for any that is free.' : '';
      reject(
        new HoldfastError(
          'OPTION_INVALID',
          `The dashboard cannot listen on ${host}:${port}: ${why}. It was not started.${fix}`,
          { cause },
        ),
      );
    });
    server.listen(port, host, () => resolve());
  });
}
