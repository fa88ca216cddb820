/**
 * Which addresses a webhook may go to: public ones, and those that an allow-list names. It decides about addresses, never
 * about names: a name is resolved first, and the connection is made to the address that was checked.
 *
 * IPv6 is refused unless it is global unicast, so mapped, compatible, translated (NAT64), local and multicast addresses need
 * no lines of their own; within global unicast the ranges that carry an IPv4 address, or belong to nobody, are refused.
 */
import { BlockList, isIP } from 'node:net';
import { invalid, shown } from '../../../job/errors/holdfast-error.js';

/** Special-purpose ranges of IPv4 (IANA), and the address at which Azure serves secrets to its machines. */
const REFUSED_4 = [
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12'],
  ...['192.0.0.0/24', '192.0.2.0/24', '192.88.99.0/24', '192.168.0.0/16', '198.18.0.0/15'],
  ...['198.51.100.0/24', '203.0.113.0/24', '224.0.0.0/4', '240.0.0.0/4', '168.63.129.16/32'],
];
const GLOBAL_6 = ['2000::/3'];
/** Teredo, ORCHID and other assignments of the IETF; documentation; 6to4. */
const REFUSED_6 = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'];

const MOST = 1_000;

function add(list: BlockList, range: unknown): void {
  const [address = '', bits, ...rest] = typeof range === 'string' ? range.split('/') : [];
  const version = isIP(address);
  const most = version === 6 ? 128 : 32;
  const length = bits === undefined ? most : /^\d{1,3}$/.test(bits) ? Number(bits) : -1;
  // A zone names an interface, and no range has one.
  if (version === 0 || address.includes('%') || rest.length > 0 || length < 0 || length > most) {
    throw invalid(
      `allow holds ${shown(range)}, which is no range of addresses; nothing was done. ` +
        "Write ranges such as '10.0.0.0/8' or 'fd00::/8'.",
    );
  }
  list.addSubnet(address, length, version === 6 ? 'ipv6' : 'ipv4');
}

function listOf(ranges: readonly unknown[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) add(list, range);
  return list;
}

const refused4 = listOf(REFUSED_4);
const refused6 = listOf(REFUSED_6);
const global6 = listOf(GLOBAL_6);

/** True of an address that may be connected to. */
export type MayReach = (address: string) => boolean;

/** `allow`: ranges beyond the public ones. */
export function reachable(allow: readonly string[] = []): MayReach {
  if (!Array.isArray(allow) || allow.length > MOST)
    throw invalid(`allow must be a list of at most ${MOST} ranges; nothing was done.`);
  const allowed = listOf(allow);
  /** The last answers: the same addresses come again and again. */
  const known = new Map<string, boolean>();
  const decide = (address: string) => {
    const version = isIP(address);
    // A zone (fe80::1%eth0) names an interface of this machine.
    if (version === 0 || address.includes('%')) return false;
    const family = version === 6 ? 'ipv6' : 'ipv4';
    if (allowed.check(address, family)) return true;
    return version === 4
      ? !refused4.check(address, family)
      : global6.check(address, family) && !refused6.check(address, family);
  };
  return (address) => {
    const before = known.get(address);
    if (before !== undefined) return before;
    if (known.size >= MOST) known.clear();
    const may = decide(address);
    known.set(address, may);
    return may;
  };
}
