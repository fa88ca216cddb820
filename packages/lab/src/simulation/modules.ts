/** What takes the place of `node:os` and `node:crypto`: a worker's id is made of nothing but the seed. */
import { me } from './world.js';

export const hostname = (): string => me().name;
export const userInfo = () => ({ username: 'lab' });

const byte = () => Math.floor(Math.random() * 256);
const hex = (bytes: Uint8Array) =>
  Array.from(bytes, (value) => value.toString(16).padStart(2, '0')).join('');

/** All that is made of them is a text of hexadecimal digits. */
export function randomBytes(count: number): { toString(encoding: 'hex'): string } {
  const bytes = Uint8Array.from({ length: count }, byte);
  return { toString: () => hex(bytes) };
}

export function randomFillSync(bytes: Uint8Array): Uint8Array {
  for (let at = 0; at < bytes.length; at++) bytes[at] = byte();
  return bytes;
}

export const randomUUID = (): string =>
  randomBytes(16)
    .toString('hex')
    .replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12})$/, '$1-$2-4$3-8$4-$5');
