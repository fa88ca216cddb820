/** Standard Webhooks, and Svix, which has the same scheme under other names of headers. */
import { type Delivery, Refused, type Verifier } from '../delivery.js';
import {
  checkSignature,
  checkTime,
  keysOf,
  type Secrets,
  type ToleranceOptions,
  textIn,
  toleranceOf,
} from './signature.js';

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

function keyOf(secret: string): Buffer | null {
  const text = secret.replace(/^whsec_/, '');
  return BASE64.test(text) && text.length >= 16 ? Buffer.from(text, 'base64') : null;
}

/** As the body says, if it is JSON. */
function typeOf(delivery: Delivery): string | null {
  try {
    return textIn(delivery.json(), 'type');
  } catch {
    return null;
  }
}

/**
 * Verifies Standard Webhooks (`webhook-id`, `webhook-timestamp`, `webhook-signature`), and Svix (`svix-id`, …).
 * @example
 * const hook = receive(hf, job<Received>('partner_event'), {
 *   verify: standardWebhooks(['whsec_bmV3IHNlY3JldCBvZiBvdXJz', 'whsec_b2xkIHNlY3JldCBvZiBvdXJz']),
 * });
 */
export function standardWebhooks(secrets: Secrets, options: ToleranceOptions = {}): Verifier {
  const what = 'standardWebhooks()';
  const keys = keysOf(secrets, what, keyOf, 'base64, with whsec_ in front or without');
  const toleranceMs = toleranceOf(options, what);
  return (delivery) => {
    const { headers, body, receivedAt } = delivery;
    const prefix = headers.get('webhook-id') === null ? 'svix' : 'webhook';
    const id = headers.get(`${prefix}-id`);
    if (!id) throw new Refused('the header webhook-id is missing', 400);
    const time = checkTime(headers.get(`${prefix}-timestamp`), receivedAt, toleranceMs);
    const signatures = (headers.get(`${prefix}-signature`) ?? '')
      .split(' ')
      .flatMap((one) => (one.startsWith('v1,') ? [one.slice(3)] : []));
    checkSignature(keys, [`${id}.${time}.`, body], signatures, 'base64');
    return { id, source: 'webhook', type: typeOf(delivery) };
  };
}
