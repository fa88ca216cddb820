/**
 * The guard against requests to places that a customer must not reach through us (SSRF). Every request of this shape goes
 * through it, tests too. A host is resolved once for a connection, every address that comes back is checked, and the
 * connection is made to the addresses that were checked: the name is not looked up again. Redirects are never followed, and
 * proxies of the environment are not used.
 */
import { lookup as dnsLookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { invalid, shown } from '../../../job/errors/holdfast-error.js';
import type { MayReach } from './addresses.js';

/** Resolves a host to its addresses. */
export type Resolve = (host: string) => Promise<readonly string[]>;

/** The request was not made: it would go to an address that webhooks may not reach. */
export class AddressRefused extends Error {
  readonly code = 'ADDRESS_REFUSED';
}

const MAX_URL = 2_048;
const WEB_PORTS = new Set(['', '80', '443']);
const LOCAL_NAME = /^(localhost|.*\.localhost)\.?$/i;

/** What is wrong with the URL whatever its host resolves to; null: nothing. */
function problemOf(url: URL, allowHttp: boolean): string | null {
  if (url.protocol !== 'https:' && !(allowHttp && url.protocol === 'http:'))
    return allowHttp ? 'is neither https: nor http:' : 'is not https:';
  if (url.username !== '' || url.password !== '')
    return 'holds a user or a password; send them in a header';
  if (url.hostname === '') return 'has no host';
  // Below 1024 lie mail, databases' tunnels and the like, which may take a request for a command.
  if (!WEB_PORTS.has(url.port) && Number(url.port) < 1024)
    return `has the port ${url.port}; below 1024 only 80 and 443 are allowed`;
  return null;
}

/** An address that is written in the URL, however it is written: the parser has made it plain. */
function literalOf({ hostname }: URL): string | null {
  const host = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
  return isIP(host) === 0 ? null : host;
}

export interface Guard {
  /** Checks what can be known without a look-up, and returns the URL as it will be called. */
  check(url: unknown, what: string, undone: string): URL;
  /** Throws AddressRefused for an address in the URL that may not be reached: such a host is not looked up. */
  checkLiteral(url: URL): void;
  /** For `node:http`: the look-up whose answer is the address of the connection. */
  readonly lookup: LookupFunction;
}

const systemResolve: Resolve = (host) =>
  new Promise((resolve, reject) => {
    dnsLookup(host, { all: true }, (error, found) => {
      if (error) reject(error);
      else resolve(found.map(({ address }) => address));
    });
  });

const refusal = () =>
  new AddressRefused('the host is at an address that webhooks may not reach; no request was made');

export function newGuard(
  mayReach: MayReach,
  { allowHttp = false, resolve = systemResolve }: { allowHttp?: boolean; resolve?: Resolve } = {},
): Guard {
  const mayCall = (url: URL) => {
    const literal = literalOf(url);
    if (literal !== null) return mayReach(literal);
    return !LOCAL_NAME.test(url.hostname) || mayReach('127.0.0.1') || mayReach('::1');
  };

  async function checked(host: string) {
    const addresses = await resolve(host);
    // One that may not be reached among several: somebody tries to get there now and then.
    if (addresses.length === 0 || !addresses.every(mayReach)) throw refusal();
    return addresses.map((address) => ({ address, family: isIP(address) }));
  }

  return {
    check(given, what, undone) {
      const text = typeof given === 'string' && given.length <= MAX_URL ? given : '';
      const url = URL.canParse(text) ? new URL(text) : null;
      const problem = url ? problemOf(url, allowHttp) : 'is no URL of at most 2,048 characters';
      if (url === null || problem !== null) {
        // A password is not repeated.
        const quoted = url?.username || url?.password ? '' : ` ${shown(given)}`;
        throw invalid(`${what}${quoted} ${problem}. ${undone}`);
      }
      if (!mayCall(url))
        throw invalid(
          `${what} ${shown(given)} is at an address that webhooks may not reach. ${undone} ` +
            'If it is yours, name its range in the allow option of webhooks().',
        );
      url.hash = '';
      return url;
    },
    checkLiteral(url) {
      if (problemOf(url, allowHttp) !== null || !mayCall(url)) throw refusal();
    },
    lookup(host, options, callback) {
      checked(host).then(
        (addresses) => {
          const [first] = addresses;
          if (options.all) callback(null, addresses);
          else callback(null, first?.address as string, first?.family);
        },
        (error: NodeJS.ErrnoException) => callback(error, '', 0),
      );
    },
  };
}
