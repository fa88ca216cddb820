/** Slack's requests: events, interactions and slash commands. */
import type { Verifier } from '../delivery.js';
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

/** An event says its own type within; a slash command says none. */
function typeOf(body: unknown): string | null {
  const inner = (body as { event?: unknown } | null)?.event;
  if (textIn(body, 'command') !== null) return 'slash_command';
  return textIn(inner, 'type') ?? textIn(body, 'type');
}

/**
 * Verifies `X-Slack-Signature`, and answers `url_verification` by itself.
 * @example
 * const mentioned = job<Received<{ event: { text: string } }>>('slack_event');
 * const hook = receive(hf, mentioned, { verify: slack(process.env.SLACK_SIGNING_SECRET ?? '') });
 */
export function slack(signingSecret: Secrets, options: ToleranceOptions = {}): Verifier {
  const keys = keysOf(signingSecret, 'slack()', plainKey, 'text');
  const toleranceMs = toleranceOf(options, 'slack()');
  return (delivery) => {
    const { headers, receivedAt } = delivery;
    const time = checkTime(headers.get('x-slack-request-timestamp'), receivedAt, toleranceMs);
    const signature = headers.get('x-slack-signature') ?? '';
    const signatures = signature.startsWith('v0=') ? [signature.slice(3)] : [];
    checkSignature(keys, [`v0:${time}:`, delivery.body], signatures, 'hex');
    const body = delivery.json();
    const challenge = textIn(body, 'challenge');
    if (textIn(body, 'type') === 'url_verification' && challenge !== null)
      return { answer: challenge };
    // What has no id of its own is sent once: then the signature, which is of the time too, stands for it.
    const id = textIn(body, 'event_id') ?? textIn(body, 'trigger_id') ?? signature;
    return { id, source: 'slack', type: typeOf(body) };
  };
}
