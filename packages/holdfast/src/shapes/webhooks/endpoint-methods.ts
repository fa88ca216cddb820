/** What programs call: endpoints, by method. The methods are written out, because the compiler shows no comments that it infers. */
import type { Duration } from '../../job/options/duration.js';
import type { ActOptions } from '../../operate/options.js';
import type { Transaction } from '../../postgres/queryable.js';
import type { EndpointChanges, EndpointOptions, EndpointOwner } from './endpoint-options.js';
import type { Endpoint, EndpointState, WaitingDeliveries } from './views.js';

/** What `endpoints.create()` takes beside. */
export interface EndpointCall extends ActOptions {
  /** Your transaction. Default: one of its own. */
  readonly tx?: Transaction;
}

/** What acts on an endpoint take. */
export interface EndpointAct extends EndpointCall, EndpointOwner {}

/** Which endpoints are listed. */
export interface EndpointsRequest {
  /** Only those of this tenant. Default: all. */
  readonly tenant?: string;
  /** Only those in this state. Default: all. */
  readonly state?: EndpointState;
  /** After this one: `next` of the page before. Default: from the first on. */
  readonly after?: string;
  /** At most so many, up to 1,000. Default 100. */
  readonly limit?: number;
}

/** A page of endpoints. */
export interface EndpointsPage {
  /** The endpoints, the oldest first. */
  readonly endpoints: readonly Endpoint[];
  /** For `after` of the next page; null: there are no more. */
  readonly next: string | null;
}

/** A signing secret, which is told this once. */
export interface EndpointSecret {
  /** `whsec_` and base64, for the receiver. */
  readonly secret: string;
}

/** What `endpoints.rotate()` takes beside. */
export interface RotateCall extends EndpointAct {
  /** How long the old secret signs beside the new one. 0: it ends now, with all before it. Default a day, at most 90. */
  readonly overlap?: Duration;
  /** The new secret. Default: one is made. */
  readonly secret?: string;
}

/** What `endpoints.enable()` takes beside. */
export interface EnableCall extends EndpointAct {
  /** Also run deliveries again whose attempts were spent. Default true. */
  readonly failed?: boolean;
}

/** An endpoint that was enabled. */
export interface EnabledEndpoint extends Endpoint {
  /** How many deliveries are due now. */
  readonly replayed: number;
}

/** What went with an endpoint. */
export interface RemovedEndpoint {
  /** How many deliveries were cancelled. */
  readonly cancelled: number;
}

/** Endpoints: where webhooks go. */
export interface Endpoints {
  /**
   * Makes an endpoint. Its secret is returned here and by `rotate()`, and never again. ENDPOINTS_FULL if the tenant has
   * as many as it may.
   * @example const { id, secret } = await hooks.endpoints.create({ tenant: 'acme', url: 'https://acme.example/hooks' });
   */
  create(endpoint: EndpointOptions, call?: EndpointCall): Promise<Endpoint & EndpointSecret>;
  /**
   * Changes an endpoint. What you leave out stays as it is, but another origin does not get the
   * headers of the old one. Deliveries that wait go to the new URL.
   * @example await hooks.endpoints.update(acme.id, { events: ['order.*'], rate: { limit: 10, per: '1s' } }, { tx: client });
   */
  update(id: string, changes: EndpointChanges, call?: EndpointAct): Promise<Endpoint>;
  /**
   * Lists endpoints, without their secrets.
   * @example const { endpoints } = await hooks.endpoints.list({ tenant: 'acme' });
   */
  list(request?: EndpointsRequest): Promise<EndpointsPage>;
  /**
   * An endpoint and how many of its deliveries wait, are held and have failed. ENDPOINT_UNKNOWN if it is not there.
   * @example const { state, waiting } = await hooks.endpoints.get(acme.id, { tenant: 'acme' });
   */
  get(id: string, owner?: EndpointOwner): Promise<Endpoint & WaitingDeliveries>;
  /**
   * Gives an endpoint a new secret. For `overlap` (default a day) requests are signed with the old one too; with 0 they
   * are signed with the new one only, as for a secret that has leaked.
   * @example const { secret } = await hooks.endpoints.rotate(acme.id, { overlap: '7d' });
   */
  rotate(id: string, call?: RotateCall): Promise<EndpointSecret>;
  /**
   * Stops requests to an endpoint. Its deliveries are held, and so is what is sent from now on. A request that runs ends.
   * @example await hooks.endpoints.disable(acme.id, { reason: 'the customer asked for it', actor: 'kim' });
   */
  disable(id: string, call?: EndpointAct): Promise<Endpoint>;
  /**
   * Lets requests go to an endpoint again: held deliveries, and those that had spent their attempts, are due now.
   * @example await hooks.endpoints.enable(acme.id, { reason: 'the receiver is up again' });
   */
  enable(id: string, call?: EnableCall): Promise<EnabledEndpoint>;
  /**
   * Removes an endpoint. Its deliveries are cancelled and stay in the archive, with the reason. Returns how many.
   * @example await hooks.endpoints.remove(acme.id, { tx: client });
   */
  remove(id: string, call?: EndpointAct): Promise<RemovedEndpoint>;
}
