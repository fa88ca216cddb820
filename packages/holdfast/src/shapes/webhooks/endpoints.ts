/**
 * Endpoints, for programs: made, changed, disabled, enabled and removed, in the caller's transaction or in one of its own.
 * Deliveries to a disabled endpoint are held; enabling it replays them and those that had spent their attempts.
 */

import { ask } from '../../api/access.js';
import { actIn, recordOf } from '../../api/act/acts.js';
import { checkTx } from '../../enqueue/transaction.js';
import { HoldfastError } from '../../job/errors/holdfast-error.js';
import { checkInteger } from '../../job/job.js';
import { checkKey } from '../../job/key.js';
import { type Duration, durationMs } from '../../job/options/duration.js';
import { checkChoice, checkFlag, checkKnown, type Known } from '../../job/options/known-options.js';
import { uuidv7 } from '../../job/uuid.js';
import type { ActName } from '../../operate/audit.js';
import { ACT_OPTIONS, type ActOptions, checkActOptions } from '../../operate/options.js';
import type { Executor, Transaction } from '../../postgres/queryable.js';
import { checkSecret, newSecret } from './deliver/sign.js';
import type { Deps } from './deps.js';
import {
  checkChanges,
  checkEndpoint,
  checkEndpointId,
  checkOwner,
  type EndpointChanges,
  type EndpointOptions,
  type EndpointOwner,
  movedFrom,
} from './endpoint-options.js';
import { cancelAll, queueOf, replay } from './moves.js';
import { count } from './rows/deliveries.js';
import * as rows from './rows/endpoints.js';
import { rotate } from './rows/secrets.js';
import {
  type Endpoint,
  type EndpointState,
  endpointView,
  type WaitingDeliveries,
} from './views.js';

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

const CALL = { ...ACT_OPTIONS, tx: true } as const satisfies Known<EndpointCall>;
const REQUEST = {
  ...{ tenant: true, state: true, after: true, limit: true },
} as const satisfies Known<EndpointsRequest>;
/** No more deliveries of an endpoint are counted. */
const COUNTED = 10_000;
const DAY_MS = 86_400_000;
const UNDONE = 'Nothing was done.';

export const unknownEndpoint = (id: string) =>
  new HoldfastError(
    'ENDPOINT_UNKNOWN',
    `There is no webhook endpoint ${id}; nothing was done. List those that there are with endpoints.list().`,
  );

export function endpoints(deps: Deps) {
  const { access, names, settings } = deps;
  const { guard } = settings;

  function checkCall(call: EndpointCall, where: string, more: Record<string, true> = {}): void {
    checkKnown(call, { ...CALL, ...more }, `endpoints.${where}()`, UNDONE);
    checkActOptions(call);
    if ('tx' in call) checkTx(call.tx);
  }

  function checkAct(id: string, call: EndpointAct, where: string, more: Record<string, true> = {}) {
    checkCall(call, where, { tenant: true, ...more });
    checkOwner(call);
    checkEndpointId(id);
  }

  async function held(db: Executor, id: string, { tenant }: EndpointOwner) {
    const row = await rows.lock(db, names, id, tenant ?? null);
    if (!row) throw unknownEndpoint(id);
    return row;
  }

  const record = (db: Executor, act: ActName, id: string, call: EndpointCall) =>
    recordOf({ act, queue: names.queue, changes: { endpoint: id } }, call)?.add(db, names);

  async function shown(db: Executor, id: string, owner: EndpointOwner = {}): Promise<Endpoint> {
    const row = await rows.show(db, names, id, owner.tenant);
    if (!row) throw unknownEndpoint(id);
    return endpointView(row);
  }

  return {
    /**
     * Makes an endpoint. Its secret is returned here and by `rotate()`, and never again.
     * @example const { id, secret } = await hooks.endpoints.create({ tenant: 'acme', url: 'https://acme.example/hooks' });
     */
    async create(
      endpoint: EndpointOptions,
      call: EndpointCall = {},
    ): Promise<Endpoint & EndpointSecret> {
      checkCall(call, 'create');
      const checked = checkEndpoint(endpoint, guard);
      const undone = 'No endpoint was made.';
      const secret =
        endpoint.secret === undefined ? newSecret() : checkSecret(endpoint.secret, undone);
      const id = uuidv7();
      return actIn(access, call, async (db) => {
        await rows.add(db, names, { id, ...checked.endpoint }, secret, checked.headers);
        await record(db, 'add_webhook', id, call);
        return { ...(await shown(db, id)), secret };
      });
    },

    /**
     * Changes an endpoint. What you leave out stays as it is, but another origin does not get the
     * headers of the old one. Deliveries that wait go to the new URL.
     * @example await hooks.endpoints.update(acme.id, { events: ['order.*'], rate: { limit: 10, per: '1s' } }, { tx: client });
     */
    async update(id: string, changes: EndpointChanges, call: EndpointAct = {}): Promise<Endpoint> {
      checkAct(id, call, 'update');
      const checked = checkChanges(changes, guard);
      return actIn(access, call, async (db) => {
        const before = await held(db, id, call);
        const { concurrency = 1 } = checked.changes;
        if (before.ordered && concurrency !== 1)
          throw new HoldfastError(
            'OPTION_INVALID',
            'An ordered endpoint has one request at a time; nothing was changed. Make another endpoint without order.',
          );
        const { changes: columns, headers } = movedFrom(before.url, checked);
        await rows.change(db, names, id, columns, headers);
        await record(db, 'set_webhook', id, call);
        return shown(db, id);
      });
    },

    /**
     * Lists endpoints, without their secrets.
     * @example const { endpoints } = await hooks.endpoints.list({ tenant: 'acme' });
     */
    async list(request: EndpointsRequest = {}): Promise<EndpointsPage> {
      checkKnown(request, REQUEST, 'endpoints.list()', 'Nothing was read.');
      const { tenant, after, state, limit = 100 } = request;
      checkChoice(state, ['active', 'disabled'] as const, 'state', 'Nothing was read.');
      const most = checkInteger(limit, 'limit', 1, 1_000);
      const found = await ask(access, (db) =>
        rows.list(db, names, {
          tenant: tenant === undefined ? null : checkKey(tenant, 'tenant'),
          after: after === undefined ? null : checkEndpointId(after),
          ...{ state: state ?? null, limit: most + 1 },
        }),
      );
      const page = found.slice(0, most).map(endpointView);
      return { endpoints: page, next: found.length > most ? (page.at(-1)?.id ?? null) : null };
    },

    /**
     * An endpoint and how many of its deliveries wait, are held and have failed. ENDPOINT_UNKNOWN if it is not there.
     * @example const { state, waiting } = await hooks.endpoints.get(acme.id, { tenant: 'acme' });
     */
    async get(id: string, owner: EndpointOwner = {}): Promise<Endpoint & WaitingDeliveries> {
      checkKnown(owner, { tenant: true }, 'endpoints.get()', 'Nothing was read.');
      checkOwner(owner);
      checkEndpointId(id);
      return ask(access, async (db) => {
        const endpoint = await shown(db, id, owner);
        const { ordered } = endpoint;
        const counts = await count(db, queueOf(deps, endpoint), { id, ordered }, COUNTED);
        return { ...endpoint, ...counts };
      });
    },

    /**
     * Gives an endpoint a new secret. For `overlap` (default a day) requests are signed with the old one too; with 0 they
     * are signed with the new one only, as for a secret that has leaked.
     * @example const { secret } = await hooks.endpoints.rotate(acme.id, { overlap: '7d' });
     */
    async rotate(
      id: string,
      call: EndpointAct & {
        /** How long the old secret signs beside the new one. 0: it ends now, with all before it. Default a day, at most 90. */
        readonly overlap?: Duration;
        /** The new secret. Default: one is made. */
        readonly secret?: string;
      } = {},
    ): Promise<EndpointSecret> {
      checkAct(id, call, 'rotate', { overlap: true, secret: true });
      const overlapMs = durationMs(call.overlap ?? '1d', 'overlap', { max: 90 * DAY_MS });
      const secret = call.secret === undefined ? newSecret() : checkSecret(call.secret, UNDONE);
      return actIn(access, call, async (db) => {
        await held(db, id, call);
        await rotate(db, names, id, secret, overlapMs);
        await record(db, 'rotate_webhook', id, call);
        return { secret };
      });
    },

    /**
     * Stops requests to an endpoint. Its deliveries are held, and so is what is sent from now on. A request that runs ends.
     * @example await hooks.endpoints.disable(acme.id, { reason: 'the customer asked for it', actor: 'kim' });
     */
    async disable(id: string, call: EndpointAct = {}): Promise<Endpoint> {
      checkAct(id, call, 'disable');
      const words = { reason: call.reason ?? null, by: call.actor ?? null };
      return actIn(access, call, async (db) => {
        await held(db, id, call);
        const was = await rows.turn(db, names, id, 'disabled', words);
        if (was !== 'disabled') await record(db, 'disable_webhook', id, call);
        return shown(db, id);
      });
    },

    /**
     * Lets requests go to an endpoint again: held deliveries, and those that had spent their attempts, are due now.
     * @example await hooks.endpoints.enable(acme.id, { reason: 'the receiver is up again' });
     */
    async enable(
      id: string,
      call: EndpointAct & {
        /** Also run deliveries again whose attempts were spent. Default true. */
        readonly failed?: boolean;
      } = {},
    ): Promise<
      Endpoint & {
        /** How many deliveries are due now. */
        readonly replayed: number;
      }
    > {
      checkAct(id, call, 'enable', { failed: true });
      checkFlag(call.failed, 'failed', UNDONE);
      const words = { reason: call.reason ?? null, by: call.actor ?? null };
      return actIn(access, call, async (db) => {
        await held(db, id, call);
        const was = await rows.turn(db, names, id, 'active', words);
        if (was !== 'active') await record(db, 'enable_webhook', id, call);
        const endpoint = await shown(db, id);
        return { ...endpoint, replayed: await replay(db, deps, endpoint, call.failed ?? true) };
      });
    },

    /**
     * Removes an endpoint. Its deliveries are cancelled and stay in the archive, with the reason. Returns how many.
     * @example await hooks.endpoints.remove(acme.id, { tx: client });
     */
    async remove(
      id: string,
      call: EndpointAct = {},
    ): Promise<{
      /** How many deliveries were cancelled. */
      readonly cancelled: number;
    }> {
      checkAct(id, call, 'remove');
      return actIn(access, call, async (db) => {
        const { ordered } = await held(db, id, call);
        await rows.remove(db, names, id);
        await record(db, 'remove_webhook', id, call);
        return { cancelled: await cancelAll(db, deps, { id, ordered }) };
      });
    },
  };
}
