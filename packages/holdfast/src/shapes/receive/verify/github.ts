/** GitHub's webhooks. They have no timestamp, and the id stands in a header that is not signed. */
import { Refused, type Verifier } from '../delivery.js';
import { checkSignature, keysOf, plainKey, type Secrets } from './signature.js';

/**
 * Verifies `X-Hub-Signature-256`. The id is `X-GitHub-Delivery`, the type `X-GitHub-Event`.
 * @example
 * const pushed = job<Received<{ ref: string }>>('github_event');
 * const hook = receive(hf, pushed, { verify: github(process.env.GITHUB_SECRET ?? '') });
 */
export function github(secrets: Secrets): Verifier {
  const keys = keysOf(secrets, 'github()', plainKey, 'text');
  return ({ headers, body }) => {
    const header = headers.get('x-hub-signature-256') ?? '';
    const signatures = header.startsWith('sha256=') ? [header.slice(7)] : [];
    checkSignature(keys, [body], signatures, 'hex');
    const id = headers.get('x-github-delivery');
    if (!id) throw new Refused('the header x-github-delivery is missing', 400);
    return { id, source: 'github', type: headers.get('x-github-event') };
  };
}
