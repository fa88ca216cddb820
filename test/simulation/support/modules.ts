/** What takes the place of `node:os` and `node:crypto`: a worker's id is made of nothing but the seed. */
import { me } from './world.js';

export const hostname = (): string => me().name;

export const randomBytes = (count: number): Buffer =>
  Buffer.from(Array.from({ length: count }, () => Math.floor(Math.random() * 256)));
