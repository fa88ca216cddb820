/**
 * The dashboard as a fetch handler, to be mounted under any path. Every request goes the same way: is it for us, under
 * a name of ours, by somebody who may look, to an address that exists, and if it is an act, from our own page and by
 * somebody who may act? Only then is the database asked.
 */
import type { Holdfast } from 'holdfast';
import { type Context, contextOf } from './context.js';
import { actProblem, hostProblem, sameOrigin } from './guard/guard.js';
import { bodyText, jsonBody } from './guard/input.js';
import { login, loginPage, logout, visitorOf } from './guard/login.js';
import { failure, json, jsonText, outageOfAct, problem, reply } from './guard/reply.js';
import { checkOptions, type DashboardOptions, type Visitor } from './options.js';
import { labPage } from './pages/lab.js';
import { missingPage, page } from './pages/pages.js';
import { eventStream } from './read/events.js';
import { matching } from './routes.js';

/** Mount it where your requests for `path` and all below it go. */
export type DashboardHandler = (request: Request) => Promise<Response>;

/**
 * Makes the dashboard for your own server. Mount it behind your login.
 * @example const handle = dashboard(hf, { path: '/ops/jobs', token: 'a secret of 16 or more' });
 */
export function dashboard(hf: Holdfast, options: DashboardOptions = {}): DashboardHandler {
  return handlerOf(contextOf(hf, checkOptions(options)));
}

export function handlerOf(context: Context): DashboardHandler {
  return async (request) => {
    try {
      const response = await answer(context, request);
      if (request.method !== 'HEAD') return response;
      await response.body?.cancel();
      return new Response(null, response);
    } catch (error) {
      return failure(error, context.log);
    }
  };
}

const MAX_LOGGED = 200;

/** It did nothing, so it has no row in the audit, which strangers could fill: it is in the log. */
function logRefusal({ log }: Context, request: Request, why: string, actor?: string): void {
  const path = new URL(request.url).pathname.slice(0, MAX_LOGGED);
  const facts = { method: request.method, path, why: why.slice(0, MAX_LOGGED) };
  const who = actor === undefined ? {} : { actor };
  log.warn({ ...facts, ...who }, 'the dashboard refused a request');
}

function forbidden(context: Context, request: Request, why: string, actor?: string): Response {
  logRefusal(context, request, why, actor);
  return problem(403, why);
}

async function answer(context: Context, request: Request): Promise<Response> {
  const { settings } = context;
  const { base } = settings;
  const url = new URL(request.url);
  const { pathname } = url;
  if (`${pathname}/` === base) return reply(308, null, { location: `${base}${url.search}` });
  if (!pathname.startsWith(base)) return problem(404, 'There is nothing here.');
  const wrongHost = hostProblem(request, settings);
  if (wrongHost) return forbidden(context, request, wrongHost);
  const path = pathname.slice(base.length);
  if (path === 'login' && request.method === 'POST' && settings.token) {
    if (!sameOrigin(request, settings))
      return forbidden(context, request, 'This came from another site.');
    const opened = login(request, settings, await bodyText(request));
    if (opened.status === 401) logRefusal(context, request, 'That is not the token.');
    return opened;
  }
  const visitor = await visitorOf(request, settings);
  if (!visitor) return refusal(context, request);
  return inside(context, request, { path, url, visitor });
}

const wantsPage = (request: Request) =>
  request.headers.get('accept')?.includes('text/html') ?? false;

/** A person gets the form, a program a sentence. Who only looks for the form is not worth a line in the log. */
function refusal(context: Context, request: Request): Response {
  const { settings } = context;
  const isGet = request.method === 'GET' || request.method === 'HEAD';
  if (!isGet || request.headers.has('authorization'))
    logRefusal(context, request, 'Nobody who may see it.');
  if (settings.token && wantsPage(request) && request.method === 'GET') return loginPage(settings);
  return problem(401, 'Sign in first.', { 'www-authenticate': 'Bearer' });
}

async function inside(
  context: Context,
  request: Request,
  { path, url, visitor }: { path: string; url: URL; visitor: Visitor },
): Promise<Response> {
  const { settings, feed, shared } = context;
  const method = request.method === 'HEAD' ? 'GET' : request.method;
  if (path === 'api/events' && method === 'GET')
    return eventStream(feed, request.headers.get('last-event-id') ?? url.searchParams.get('last'));
  const fits = matching(safely(path));
  const fit = fits.find(({ route }) => route.method === method);
  const methods = fits.map(({ route }) => route.method);
  if (!fit) return elsewhere(context, request, path, method, methods);
  const { route, params } = fit;
  if (route.method === 'GET') {
    const query = url.searchParams;
    const ask = async () => JSON.stringify(await route.read(context, { query, params, visitor }));
    const { keptMs } = route;
    return jsonText(await (keptMs > 0 ? shared.get(`${path}?${query}`, keptMs, ask) : ask()));
  }
  const readOnly = visitor.write ? null : 'This dashboard is read-only; nothing was done.';
  const wrong = actProblem(request, settings) ?? readOnly;
  if (wrong) return forbidden(context, request, wrong, visitor.actor);
  const body = await jsonBody(request);
  try {
    return json(200, await route.act(context, { body, params, visitor }));
  } catch (error) {
    throw outageOfAct(error);
  } finally {
    shared.clear();
  }
}

async function elsewhere(
  context: Context,
  request: Request,
  path: string,
  method: string,
  methods: readonly string[],
): Promise<Response> {
  const { settings } = context;
  if (path === 'logout' && method === 'POST') {
    const wrong = actProblem(request, settings);
    return wrong ? forbidden(context, request, wrong) : logout(request, settings);
  }
  if (methods.length > 0) return notAllowed(methods);
  const found = page(path, request, settings) ?? (await labPage(path, request, settings));
  if (path === 'api/events' || path === 'login' || path === 'logout')
    return notAllowed([path === 'api/events' ? 'GET' : 'POST']);
  // A person gets a page, a program a sentence.
  if (!found)
    return wantsPage(request) && !path.startsWith('api/')
      ? missingPage(settings)
      : problem(404, 'There is nothing here.');
  return method === 'GET' ? found : notAllowed(['GET']);
}

const notAllowed = (methods: readonly string[]) => {
  const allow = [...new Set(methods)].join(', ');
  return problem(405, `Use ${allow}.`, { allow });
};

function safely(path: string): string {
  try {
    return path.split('/').map(decodeURIComponent).join('/');
  } catch {
    return '';
  }
}
