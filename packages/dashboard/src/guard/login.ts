/**
 * Who looks. By token: a form sets a cookie that no script can read and no other site can send; it holds no token but
 * a time and a signature over it, so nothing is kept here and every process of a fleet knows it. Or by the host's own
 * function. Or nobody is asked, on loopback.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { Settings, Visitor } from '../options.js';
import { html, reply, withStyle } from './reply.js';

const COOKIE = 'holdfast_session';
const LASTS_S = 12 * 3600;

const digest = (text: string) => createHash('sha256').update(text).digest();
/** Equal in constant time: digests have one length. */
const same = (a: string, b: string) => timingSafeEqual(digest(a), digest(b));

const sign = (token: string, until: string) =>
  createHmac('sha256', token).update(`holdfast dashboard ${until}`).digest('base64url');

function cookieOf(request: Request): string | null {
  const pairs = (request.headers.get('cookie') ?? '').split(/; */);
  return pairs.find((pair) => pair.startsWith(`${COOKIE}=`))?.slice(COOKIE.length + 1) ?? null;
}

function hasSession(request: Request, token: string): boolean {
  const [until = '', signature = ''] = (cookieOf(request) ?? '').split('.');
  return Number(until) > Date.now() / 1000 && same(signature, sign(token, until));
}

function knows(request: Request, token: string): boolean {
  const bearer = /^Bearer (.+)$/i.exec(request.headers.get('authorization') ?? '')?.[1];
  return bearer !== undefined ? same(bearer, token) : hasSession(request, token);
}

/** Null: nobody who may see it. */
export async function visitorOf(request: Request, settings: Settings): Promise<Visitor | null> {
  const { token, authorise, write, actor, loopback } = settings;
  if (token && knows(request, token)) return { actor, write };
  if (authorise) {
    const visitor = await authorise(request);
    return visitor && { actor: String(visitor.actor), write: write && visitor.write === true };
  }
  return !token && loopback ? { actor, write } : null;
}

const STYLE = `body{font:16px/1.5 system-ui,sans-serif;max-width:22rem;margin:15vh auto;padding:0 1rem;
color-scheme:light dark}label,input,button{display:block;width:100%;box-sizing:border-box;font:inherit}
input,button{margin:.5rem 0;padding:.5rem}p[role]{color:light-dark(#a4161a,#ff8a8f)}`;
const STYLE_HASH = `sha256-${createHash('sha256').update(STYLE).digest('base64')}`;

/** The form, for a person. It works without scripts, and with no other file. */
export function loginPage({ base }: Settings, wrong = false): Response {
  const said = wrong ? '<p role="alert">That is not the token.</p>' : '';
  const page = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Holdfast: sign in</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>${STYLE}</style></head>
<body><main><h1>Holdfast</h1>${said}<form method="post" action="${base}login">
<label for="token">Token</label><input id="token" name="token" type="password" required autofocus autocomplete="current-password">
<button>Sign in</button></form></main></body></html>`;
  // Without a referrer a form is sent with `Origin: null`; on plain HTTP nothing else says that it came from here.
  return html(401, page, { ...withStyle(STYLE_HASH), 'referrer-policy': 'same-origin' });
}

function cookieLine(settings: Settings, request: Request, value: string, seconds: number): string {
  const { protocol } = new URL(request.url);
  const secure = protocol === 'https:' || request.headers.get('x-forwarded-proto') === 'https';
  const path = settings.base;
  return `${COOKIE}=${value}; Path=${path}; Max-Age=${seconds}; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}`;
}

export function login(request: Request, settings: Settings, body: string): Response {
  const { token, base } = settings;
  const given = new URLSearchParams(body).get('token') ?? '';
  if (!token || !same(given, token)) return loginPage(settings, true);
  const until = String(Math.floor(Date.now() / 1000) + LASTS_S);
  const cookie = cookieLine(settings, request, `${until}.${sign(token, until)}`, LASTS_S);
  return reply(303, null, { location: base, 'set-cookie': cookie });
}

export const logout = (request: Request, settings: Settings): Response =>
  reply(204, null, { 'set-cookie': cookieLine(settings, request, '', 0) });
