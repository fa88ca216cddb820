/** The packages of Holdfast have one version, and what they take from each other may change with each. */
import { HoldfastError } from './job/errors/errors.js';
import { VERSION } from './job/options/version.js';

export function checkSameVersion(name: string, version: string): void {
  if (version === VERSION) return;
  throw new HoldfastError(
    'VERSION_MISMATCH',
    `${name} is version ${version} and holdfast is version ${VERSION}, so nothing of ${name} was loaded. Install both in one version: npm install holdfast@${version} ${name}@${version}`,
  );
}
