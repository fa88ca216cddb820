/**
 * Which requests are let in: by the name under which they came, and for acts by the page that sent them.
 *
 * A page elsewhere can make a browser send requests here, and with a name that resolves to 127.0.0.1 it could even
 * read the answers. So without a sign-in only loopback names are answered, and an act must come from our own page: by
 * what the browser says of it, and with a header that no form can send.
 */
import type { Settings } from '../options.js';

const LOOPBACK = /^(127(\.\d{1,3}){3}|::1|\[::1\]|localhost)$/;
export const isLoopback = (host: string): boolean => LOOPBACK.test(host);

const PASSED_ON = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-real-ip', 'via'];

/** Of every act, beside what the browser says itself. */
export const ACT_HEADER = 'x-holdfast';

const hostOf = (request: Request): string =>
  request.headers.get('host') ?? new URL(request.url).host;

const nameOf = (host: string): string => host.toLowerCase().replace(/:\d+$/, '').replace(/\.$/, '');

export function hostProblem(request: Request, { hosts, loopback, token, authorise }: Settings) {
  const name = nameOf(hostOf(request));
  const open = loopback === true && !token && !authorise;
  if (open && PASSED_ON.some((header) => request.headers.has(header)))
    return 'This came through a proxy, and this dashboard asks nobody who he is. Give it a token or authorise.';
  const known = hosts?.some((host) => nameOf(host) === name) ?? false;
  if (known) return null;
  if (loopback === true)
    return isLoopback(name) ? null : `"${name}" is not a name of this dashboard.`;
  return hosts === undefined ? null : `"${name}" is not a name of this dashboard; see \`hosts\`.`;
}

/** Whether it came from a page of this origin, or from no page at all. */
export function sameOrigin(request: Request, { hosts }: Settings): boolean {
  const site = request.headers.get('sec-fetch-site');
  if (site !== null) return site === 'same-origin';
  const origin = request.headers.get('origin');
  if (origin === null) return true;
  if (!URL.canParse(origin)) return false;
  const { host } = new URL(origin);
  if (host === hostOf(request).toLowerCase()) return true;
  return hosts?.some((name) => nameOf(name) === nameOf(host)) ?? false;
}

export function actProblem(request: Request, settings: Settings): string | null {
  if (!sameOrigin(request, settings)) return 'This came from another site; nothing was done.';
  if (!request.headers.has(ACT_HEADER))
    return `An act needs the header ${ACT_HEADER}; nothing was done.`;
  return null;
}
