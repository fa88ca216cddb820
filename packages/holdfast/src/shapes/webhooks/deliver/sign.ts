/**
 * Signatures of Standard Webhooks (https://www.standardwebhooks.com): HMAC-SHA256 over `id.timestamp.body`. While a secret is
 * being replaced, both sign, so a receiver that knows either of them goes on.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { invalid } from '../../../job/errors/holdfast-error.js';

const PREFIX = 'whsec_';
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

export const newSecret = () => `${PREFIX}${randomBytes(32).toString('base64')}`;

/** The error never holds the secret. */
export function checkSecret(secret: unknown, undone: string): string {
  const encoded =
    typeof secret === 'string' && secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : '';
  const bytes = BASE64.test(encoded) ? Buffer.from(encoded, 'base64').length : 0;
  if (bytes >= 24 && bytes <= 64) return secret as string;
  throw invalid(`A secret must be whsec_ and 24 to 64 bytes in base64. ${undone}`);
}

/** The header `webhook-signature`: one signature for each secret. */
export function signatures(
  secrets: readonly string[],
  id: string,
  timestamp: number,
  body: string,
): string {
  const signed = `${id}.${timestamp}.${body}`;
  return secrets
    .map((secret) => {
      const key = Buffer.from(secret.slice(PREFIX.length), 'base64');
      return `v1,${createHmac('sha256', key).update(signed).digest('base64')}`;
    })
    .join(' ');
}
