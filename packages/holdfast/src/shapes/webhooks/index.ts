/** `holdfast/webhooks`: webhooks to your customers. */
export type { TestResult } from './deps.js';
export type { EndpointChanges, EndpointOptions, EndpointOwner } from './endpoint-options.js';
export type {
  EndpointAct,
  EndpointCall,
  EndpointSecret,
  EndpointsPage,
  EndpointsRequest,
} from './endpoints.js';
export type { Resolve } from './guard/guard.js';
export type { EndpointDisabled, WebhooksOptions } from './options.js';
export type { SendCall, SentMessage, WebhookMessage } from './send.js';
export type { Endpoint, EndpointState, WaitingDeliveries, WebhookAttempt } from './views.js';
export {
  type DeliveriesPage,
  type DeliveriesRequest,
  type Webhooks,
  webhooks,
} from './webhooks.js';
