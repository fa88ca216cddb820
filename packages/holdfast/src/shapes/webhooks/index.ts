/** `holdfast/webhooks`: webhooks to your customers. */
export type { TestResult } from './deps.js';
export type {
  EnableCall,
  EnabledEndpoint,
  EndpointAct,
  EndpointCall,
  EndpointSecret,
  Endpoints,
  EndpointsPage,
  EndpointsRequest,
  RemovedEndpoint,
  RotateCall,
} from './endpoint-methods.js';
export type { EndpointChanges, EndpointOptions, EndpointOwner } from './endpoint-options.js';
export type { Resolve } from './guard/guard.js';
export type { EndpointDisabled, WebhooksOptions } from './options.js';
export type {
  SendCall,
  Sending,
  SentMessage,
  SentTest,
  TestCall,
  WebhookMessage,
} from './send.js';
export type { Endpoint, EndpointState, WaitingDeliveries, WebhookAttempt } from './views.js';
export {
  type DeliveriesPage,
  type DeliveriesRequest,
  type Webhooks,
  webhooks,
} from './webhooks.js';
