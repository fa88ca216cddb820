// The peers and the Node that they need, installed into this folder when they are missing or old.
// They are no part of the main install: whoever only uses or tests Holdfast never downloads them.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL('.', import.meta.url));
const stamp = `${folder}node_modules/.holdfast-install`;
const OLDEST = [22, 18];

export const nodeBinary = `${folder}node_modules/node/bin/node${process.platform === 'win32' ? '.exe' : ''}`;

/** Such as [24, 21]; null when the binary does not run here. */
function versionOf(binary) {
  const { status, stdout } = spawnSync(binary, ['--version'], { encoding: 'utf8' });
  return status === 0 ? stdout.trim().slice(1).split('.').map(Number) : null;
}

/** Throws with a sentence that says what to do. */
export function ensurePeers() {
  const wanted = createHash('sha256')
    .update(readFileSync(`${folder}package.json`))
    .update(readFileSync(`${folder}package-lock.json`))
    .digest('hex');
  if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== wanted) {
    console.error('bench: installing the peers and their Node (about 300 MB, once) …');
    const args = ['install', '--no-save', '--no-audit', '--no-fund', '--loglevel=error'];
    const { status } = spawnSync('npm', args, {
      cwd: folder,
      stdio: ['ignore', 2, 2],
      shell: process.platform === 'win32',
    });
    if (status !== 0)
      throw new Error(`npm ${args.join(' ')} failed in ${folder}; nothing was measured.`);
    writeFileSync(stamp, wanted);
  }
  const version = versionOf(nodeBinary);
  if (!version || version[0] < OLDEST[0] || (version[0] === OLDEST[0] && version[1] < OLDEST[1])) {
    throw new Error(
      `The peers need Node ${OLDEST.join('.')} or later, and ${nodeBinary} ` +
        `${version ? `is ${version.join('.')}` : 'does not run'}. Delete ${folder}node_modules and try again.`,
    );
  }
}
