export {
  type Answered,
  type Delivery,
  Refused,
  type Verified,
  type Verifier,
} from './delivery.js';
export type { ReceiverStats } from './intake.js';
export type { Received, ReceiveOptions } from './options.js';
export { type Receiver, receive } from './receive.js';
export { github } from './verify/github.js';
export type { Secrets, ToleranceOptions } from './verify/signature.js';
export { slack } from './verify/slack.js';
export { standardWebhooks } from './verify/standard-webhooks.js';
export { stripe } from './verify/stripe.js';
