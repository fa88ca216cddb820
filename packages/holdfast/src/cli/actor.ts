/** Who types: the user of this machine, for the audit. The database's role is known to the database. */
import { hostname, userInfo } from 'node:os';
import { defined } from '../job/options/known-options.js';
import type { ActOptions } from '../operate/options.js';
import type { Given } from './command.js';

/** A user id may have no name, as in many containers. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}

export function actor(): string {
  const { SUDO_USER: behind } = process.env;
  const user = userName();
  const self = `${user}@${hostname()}`;
  return behind && behind !== user ? `${self} (sudo by ${behind})` : self;
}

export function actOptions(given: Given): ActOptions {
  return { actor: actor(), ...defined({ reason: given.text('reason') }) };
}
