// The dashboard, under /holdfast, for those who have the token. Without DASHBOARD_TOKEN (at least 16 characters) one
// is made and printed.
import { randomBytes } from 'node:crypto';
import { dashboard } from '@holdfast/dashboard';
import { hf } from './database.ts';

function newToken(): string {
  const token = randomBytes(16).toString('hex');
  console.log(`The dashboard's token, until the next start: ${token}`);
  return token;
}

const token = process.env.DASHBOARD_TOKEN || newToken();
export const ops = dashboard(hf, { path: '/holdfast', write: true, token });
