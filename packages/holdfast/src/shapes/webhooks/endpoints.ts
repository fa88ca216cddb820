/**
 * Endpoints, for programs: made, changed, disabled, enabled and removed, in the caller's transaction or in one of its own.
 * Deliveries to a disabled endpoint are held; enabling it replays them and those that had spent their attempts.
 */

import { ask } from '../../api/access.js';
import { actIn, recordOf } from '../../api/act/acts.js';
import { checkTx } from '../../enqueue/transaction.js';
import { HoldfastError, shown as quoted } from '../../job/errors/holdfast-error.js';
import { checkInteger } from '../../job/job.js';
import { checkKey } from '../../job/key.js';
import { durationMs } from '../../job/options/duration.js';
import { checkChoice, checkFlag, checkKnown, type Known } from '../../job/options/known-options.js';
import { uuidv7 } from '../../job/uuid.js';
import type { ActName } from '../../operate/audit.js';
import { ACT_OPTIONS, checkActOptions } from '../../operate/options.js';
import type { Executor } from '../../postgres/queryable.js';
import { checkSecret, newSecret } from './deliver/sign.js';
import type { Deps } from './deps.js';
import type {
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
import { count, hintEndpoint } from './rows/deliveries.js';
import * as rows from './rows/endpoints.js';
import { rotate } from './rows/secrets.js';
import { type Endpoint, endpointView, type WaitingDeliveries } from './views.js';

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

const tooMany = (tenant: string, most: number) =>
  new HoldfastError(
    'ENDPOINTS_FULL',
    `The tenant ${quoted(tenant)} has ${most} endpoints of webhooks, as many as it may have; no endpoint was made. ` +
      'Remove one, or raise maxEndpoints of webhooks().',
  );

export function endpoints(deps: Deps): Endpoints {
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
        const { headers } = checked;
        const most = settings.maxEndpoints;
        const added = { id, ...checked.endpoint };
        if (!(await rows.add(db, names, added, { secret, headers, most })))
          throw tooMany(endpoint.tenant, most);
        await record(db, 'add_webhook', id, call);
        return { ...(await shown(db, id)), secret };
      });
    },

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
        // It may have room for more now.
        if (columns.concurrency !== undefined) await hintEndpoint(db, names, id);
        return shown(db, id);
      });
    },

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

    async get(id: string, owner: EndpointOwner = {}): Promise<Endpoint & WaitingDeliveries> {
      checkKnown(owner, { tenant: true }, 'endpoints.get()', 'Nothing was read.');
      checkOwner(owner);
      checkEndpointId(id);
      return ask(access, async (db) => {
        const endpoint = await shown(db, id, owner);
        const counts = await count(db, queueOf(deps, endpoint), id, COUNTED);
        return { ...endpoint, ...counts };
      });
    },

    async rotate(id: string, call: RotateCall = {}): Promise<EndpointSecret> {
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

    async enable(id: string, call: EnableCall = {}): Promise<EnabledEndpoint> {
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

    async remove(id: string, call: EndpointAct = {}): Promise<RemovedEndpoint> {
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
