/**
 * Chooses the TCP port of a server. Another process can take it before PostgreSQL binds it; the launcher then asks
 * again. Ports that the system uses for outgoing connections are avoided: a client that keeps trying to reach a stopped
 * server on such a port can end up connected to itself, and then holds the port against the server's return.
 */
import { randomInt } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';

const lowest = 10_000;
const highest = 65_535;
// What IANA recommends, for systems that do not say what they use.
const usualOutgoing: readonly [number, number] = [49_152, 65_535];
const tries = 50;

export async function freePort(preferred?: number): Promise<number> {
  if (preferred !== undefined && (await isFree(preferred))) return preferred;
  const [from, to] = outgoingPorts();
  const below = Math.max(0, Math.min(from, highest + 1) - lowest);
  const above = Math.max(0, highest - Math.max(to, lowest - 1));
  for (let attempt = 0; attempt < tries && below + above > 0; attempt++) {
    const nth = randomInt(below + above);
    const port = nth < below ? lowest + nth : to + 1 + nth - below;
    if (await isFree(port)) return port;
  }
  // Every port is used for outgoing connections here, or nearly all are taken: let the system choose.
  return listenOnce(0);
}

function outgoingPorts(): readonly [number, number] {
  try {
    const text = readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8');
    const [from, to] = text.trim().split(/\s+/).map(Number);
    return from && to ? [from, to] : usualOutgoing;
  } catch {
    return usualOutgoing;
  }
}

const isFree = (port: number): Promise<boolean> =>
  listenOnce(port).then(
    () => true,
    () => false,
  );

function listenOnce(port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen({ host: '127.0.0.1', port, exclusive: true }, () => {
      const address = server.address();
      const chosen = typeof address === 'object' && address ? address.port : port;
      server.close(() => resolve(chosen));
    });
  });
}
