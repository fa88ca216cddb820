// The dashboard, under /holdfast. On 127.0.0.1 it is open to this machine; to listen elsewhere, set HOST and
// DASHBOARD_TOKEN (at least 16 characters). Without the token it refuses to start there.
import { dashboard } from '@holdfast/dashboard';
import { hf } from './database.ts';

const { DASHBOARD_TOKEN: token, HOST = '127.0.0.1', PORT = '3000' } = process.env;

export const host = HOST;
export const port = Number(PORT);
export const ops = dashboard(hf, {
  path: '/holdfast',
  write: true,
  ...(token ? { token } : { loopback: host === '127.0.0.1' }),
});
