/** Stripe's webhooks. */
import { Refused, type Verifier } from '../delivery.js';
import {
  checkSignature,
  checkTime,
  keysOf,
  plainKey,
  type Secrets,
  type ToleranceOptions,
  textIn,
  toleranceOf,
} from './signature.js';

/**
 * Verifies `Stripe-Signature`. The id and the type are those of the event in the body.
 * @example
 * const paid = job<Received<{ data: { object: { id: string } } }>>('stripe_event');
 * const hook = receive(hf, paid, { verify: stripe(process.env.STRIPE_SECRET ?? '') });
 */
export function stripe(secrets: Secrets, options: ToleranceOptions = {}): Verifier {
  const keys = keysOf(secrets, 'stripe()', plainKey, 'text, such as whsec_…');
  const toleranceMs = toleranceOf(options, 'stripe()');
  return (delivery) => {
    const header = delivery.headers.get('stripe-signature');
    if (header === null) throw new Refused('the header stripe-signature is missing');
    const parts = header.split(',').map((part) => part.trim());
    const valuesOf = (name: string) =>
      parts.flatMap((part) => (part.startsWith(`${name}=`) ? [part.slice(name.length + 1)] : []));
    const time = checkTime(valuesOf('t')[0] ?? null, delivery.receivedAt, toleranceMs);
    checkSignature(keys, [`${time}.`, delivery.body], valuesOf('v1'), 'hex');
    const event = delivery.json();
    const id = textIn(event, 'id');
    if (id === null) throw new Refused('the event has no id', 400);
    // The body counts the webhooks that are still to be delivered (`pending_webhooks`), so a retry may differ.
    return { id, source: 'stripe', type: textIn(event, 'type'), bodyChanges: true };
  };
}
