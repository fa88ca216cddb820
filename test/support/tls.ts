/**
 * TLS before a Postgres that has none: answers the client's request for TLS, checks the client's certificate,
 * and passes on what is inside. The key is for tests and protects nothing.
 */
import net from 'node:net';
import tls from 'node:tls';
import { onTestFinished } from 'vitest';

export const KEY = `\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgVcWmI93d/xYi4xkd
I+JBLm4YsD/mr02NuNlFaV9P78ihRANCAAS7YMsuCdcirxtVFFmxsp+ij3zm/bV8
EFD7/LAdICMDF+/UxrW4+SHWqfbQLVi+vAgDMA+H0K9xfN/eGAFESKlq
-----END PRIVATE KEY-----
`;

export const CERTIFICATE = `\
-----BEGIN CERTIFICATE-----
MIIBZjCCAQ2gAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhv
c3QwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMM
CWxvY2FsaG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABLtgyy4J1yKvG1UU
WbGyn6KPfOb9tXwQUPv8sB0gIwMX79TGtbj5Idap9tAtWL68CAMwD4fQr3F8394Y
AURIqWqjTjBMMA8GA1UdEwEB/wQFMAMBAf8wGgYDVR0RBBMwEYIJbG9jYWxob3N0
hwR/AAABMB0GA1UdDgQWBBQQGXdfmB5RcDMCTPcy+kl5G/+xFzAKBggqhkjOPQQD
AgNHADBEAiBpfd/DhamJIejW10woahHvBoid2Hf03SsM7XO6i96dTAIgOBkfP6iw
Fj5qviUnnONtF2Lvx6xLMQ/QEVPJwvW1TkU=
-----END CERTIFICATE-----
`;

/** How long the message is with which a client asks for TLS. */
const SSL_REQUEST_BYTES = 8;

/** The port on localhost. Every client must show the certificate itself. */
export async function tlsBefore(url: string): Promise<number> {
  const { hostname, port } = new URL(url);
  const secureContext = tls.createSecureContext({ key: KEY, cert: CERTIFICATE, ca: CERTIFICATE });
  const sockets = new Set<net.Socket>();
  const server = net.createServer((client) => {
    sockets.add(client);
    client.on('error', () => undefined);
    client.once('readable', () => {
      client.read(SSL_REQUEST_BYTES);
      client.write('S');
      const inside = new tls.TLSSocket(client, {
        isServer: true,
        secureContext,
        requestCert: true,
        rejectUnauthorized: true,
      });
      const postgres = net.connect(Number(port), hostname);
      inside.on('error', () => postgres.destroy());
      postgres.on('error', () => inside.destroy());
      inside.pipe(postgres).pipe(inside);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as net.AddressInfo).port;
}
