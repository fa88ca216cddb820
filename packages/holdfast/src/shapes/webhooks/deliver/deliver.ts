/**
 * One attempt of a delivery: read the endpoint, wait for its rate, send, write down what came of it, and say how the job
 * ends. A delivery is never lost: what cannot be sent now is due later, what a disabled endpoint would get is held, and
 * what has spent its attempts is a dead letter.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { PACE_MS, SOON_MS } from '../../../claim/pace.js';
import { Cancel, DeadLetter, RetryLater, Snooze } from '../../../job/errors/errors.js';
import { describeError } from '../../../job/errors/failure.js';
import type { HandlerContext } from '../../../worker/run/handler-context.js';
import { type Delivery, type Deps, isDelivery, type TestResult } from '../deps.js';
import {
  type Attempt,
  log,
  type Standing,
  type Target,
  targetsOf,
  tokenOf,
} from '../rows/attempts.js';
import { defer, HOLD_MS } from '../rows/deliveries.js';
import { batched } from './batches.js';
import { giveUp } from './give-up.js';
import type { Answer, Poster } from './post.js';
import { signatures } from './sign.js';
import { newUrls } from './urls.js';
import { type Verdict, verdictOf } from './verdict.js';

type Context = HandlerContext<Delivery, TestResult | undefined>;

/** For its rate a delivery waits here for so long; for longer it makes room for others. */
const PATIENCE_MS = 1_000;
/** So many others of its endpoint are moved with one that cannot be sent now. */
const DEFERRED = 1_000;
const AGAIN_MS = 5_000;
/** Among so many that are delivered here at once, one does not wait until its row is in the log: others come for that. */
const FEW = 20;

export function newDelivering(deps: Deps, poster: Poster) {
  const { names, settings } = deps;
  const { timeoutMs, delaysMs, disableAfterMs } = settings;
  const db = deps.outside;
  const urlOf = newUrls();
  /** So many deliveries are under way here. */
  let busy = 0;
  const target = batched(
    async (ids: readonly string[]) => {
      const found = await targetsOf(await db(), names, [...new Set(ids)]);
      return (id) => found.get(id) ?? null;
    },
    () => PACE_MS,
  );
  const logged = batched(
    async (attempts: readonly Attempt[]) => {
      const standings = await log(await db(), names, attempts, disableAfterMs);
      return ({ endpoint }) => standings.get(endpoint) ?? null;
    },
    () => (busy > FEW ? SOON_MS : PACE_MS),
  );
  /** Endpoints whose last request here was out of time, with how many run. They get one at a time: no more handlers wait for them. */
  const hanging = new Set<string>();
  const running = new Map<string, number>();

  async function read(ctx: Context): Promise<Target> {
    const { endpoint } = ctx.payload;
    const found = await target(endpoint).catch((error) => {
      ctx.log.warn({ err: describeError(error).message }, 'a webhook endpoint could not be read');
      throw new Snooze(AGAIN_MS, 'the endpoint could not be read');
    });
    if (found === null) throw new Cancel('its endpoint was removed');
    return found;
  }

  const putOff = async (id: string, waitMs: number, everyMs: number) =>
    defer(await db(), names, id, { waitMs, everyMs, limit: DEFERRED });

  /** Not now: in a queue of turns the others of the endpoint that are due would only be claimed and put back. */
  async function notNow(of: Target, waitMs: number, everyMs: number, why: string): Promise<never> {
    if (!of.ordered) await putOff(of.id, waitMs, everyMs).catch(() => {});
    throw new Snooze(Math.max(1, Math.ceil(waitMs)), why);
  }

  async function mayGo(ctx: Context, of: Target): Promise<void> {
    if (of.state === 'disabled') throw new Snooze(HOLD_MS, 'the endpoint is disabled');
    if (of.restMs > 0) await notNow(of, of.restMs, 1, 'the endpoint asked to be called later');
    while (of.rateMs !== null) {
      const waitMs = await tokenOf(await db(), names, of.id);
      if (waitMs === 0) break;
      if (waitMs > PATIENCE_MS)
        await notNow(of, waitMs, of.rateMs, 'the rate of the endpoint has no room');
      await pause(waitMs, undefined, { signal: ctx.signal });
    }
  }

  function request(ctx: Context, of: Target): Promise<Answer> {
    const { message, type, data } = ctx.payload;
    const body = JSON.stringify({ type, timestamp: ctx.createdAt.toISOString(), data });
    const timestamp = Math.floor(Date.now() / 1_000);
    return poster.post({
      ...{ url: urlOf(of.url), body, timeoutMs, signal: ctx.signal },
      headers: {
        ...of.headers,
        'content-type': 'application/json',
        'user-agent': 'Holdfast-Webhooks',
        'webhook-id': message,
        'webhook-timestamp': String(timestamp),
        'webhook-signature': signatures(of.secrets, message, timestamp, body),
      },
    });
  }

  /** In one step with the request: those that were claimed together come here in one moment. */
  function enter(of: Target, test: boolean): boolean {
    const others = running.get(of.id) ?? 0;
    if (hanging.has(of.id) && others > 0 && !test) return false;
    running.set(of.id, others + 1);
    return true;
  }

  async function sent(ctx: Context, of: Target): Promise<Answer> {
    try {
      const answer = await request(ctx, of);
      if (answer.timedOut) hanging.add(of.id);
      else hanging.delete(of.id);
      return answer;
    } finally {
      const left = (running.get(of.id) ?? 1) - 1;
      if (left > 0) running.set(of.id, left);
      else running.delete(of.id);
    }
  }

  /** The log says what was; that it cannot be written changes nothing about what is to be done. */
  async function writeDown(ctx: Context, answer: Answer, verdict: Verdict) {
    const { endpoint, message, type, test = false } = ctx.payload;
    const { status, ms, text, error } = answer;
    const attempt: Attempt = {
      ...{ endpoint, message, type, test, delivery: ctx.id, attempt: ctx.attempt },
      ...{ delivered: verdict.delivered, status, ms, answer: text, error },
      rest: verdict.restMs,
    };
    return logged(attempt).catch((failure): Standing | null => {
      const { message: err } = describeError(failure);
      ctx.log.warn({ err }, 'an attempt of a webhook could not be logged');
      return { id: endpoint, state: 'active', givenUp: false };
    });
  }

  async function failed(ctx: Context, of: Target, verdict: Verdict, standing: Standing | null) {
    if (standing === null) throw new Cancel('its endpoint was removed');
    const reason = verdict.gone
      ? 'the endpoint answered 410'
      : standing.givenUp
        ? 'its attempts have failed for too long'
        : null;
    const isDisabled =
      standing.state === 'disabled' || (reason !== null && (await giveUp(deps, of, reason)));
    if (isDisabled) throw new Snooze(HOLD_MS, `the endpoint is disabled; ${verdict.why}`);
    const usualMs = delaysMs[ctx.attempt - 1] ?? delaysMs.at(-1) ?? 0;
    // Those that failed together do not come back together.
    const delayMs = usualMs * (0.9 + 0.2 * Math.random());
    throw new RetryLater(Math.round(Math.max(delayMs, verdict.restMs ?? 0)), verdict.why);
  }

  async function deliver(ctx: Context): Promise<TestResult | undefined> {
    if (!isDelivery(ctx.payload)) throw new DeadLetter('its payload is not that of a delivery');
    const { test = false } = ctx.payload;
    const of = await read(ctx);
    if (!test) await mayGo(ctx, of);
    if (!enter(of, test)) await notNow(of, timeoutMs, 10, 'the endpoint does not answer in time');
    const answer = await sent(ctx, of);
    // The worker stops, or the job is somebody else's: it says nothing about the endpoint.
    if (ctx.signal.aborted) throw ctx.signal.reason;
    const verdict = verdictOf(answer);
    const written = writeDown(ctx, answer, verdict);
    if (verdict.delivered && !test && busy > FEW) return undefined;
    const standing = await written;
    const { status, ms, error } = answer;
    if (test) return { delivered: verdict.delivered, status, ms, error };
    if (!verdict.delivered) await failed(ctx, of, verdict, standing);
    return undefined;
  }

  return async (ctx: Context) => {
    busy++;
    try {
      return await deliver(ctx);
    } finally {
      busy--;
    }
  };
}
