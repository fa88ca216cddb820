/**
 * Which account runs PostgreSQL, and which paths it can reach. The server refuses to run as root, so under root it runs
 * as `nobody`, which every system has; anyone else runs it as himself. Only permission bits are read, no ACLs: the
 * answer errs on the side of "no".
 */
import { readFileSync, type Stats, statSync } from 'node:fs';
import { dirname } from 'node:path';

export interface Account {
  uid: number;
  gid: number;
  /** We are root and step down to this account. */
  steppedDown: boolean;
}

const conventionalNobody = 65534;

export function serverAccount(): Account {
  const uid = process.getuid?.() ?? -1;
  const gid = process.getgid?.() ?? -1;
  if (uid !== 0) return { uid, gid, steppedDown: false };
  const entry = accountsOfHost().find(([name]) => name === 'nobody');
  // macOS numbers nobody -2, which spawn and chown want as an unsigned 32-bit number.
  const idOf = (field: string | undefined) => Number(field) >>> 0 || conventionalNobody;
  return { uid: idOf(entry?.[2]), gid: idOf(entry?.[3]), steppedDown: true };
}

function accountsOfHost(): string[][] {
  try {
    return readFileSync('/etc/passwd', 'utf8')
      .split('\n')
      .map((line) => line.split(':'));
  } catch {
    return [];
  }
}

/** Whether the account may pass through every folder above the path. Missing ones are ours to make. */
export function canReach(account: Account, path: string): boolean {
  if (!account.steppedDown) return true;
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    const stats = statSync(folder, { throwIfNoEntry: false });
    if (stats && !allows(account, stats, 0o1)) return false;
    if (folder === dirname(folder)) return true;
  }
}

/** Whether the account can also open the file or folder itself, to read and to execute or enter it. */
export function canUse(account: Account, path: string): boolean {
  if (!account.steppedDown) return true;
  const stats = statSync(path, { throwIfNoEntry: false });
  return stats !== undefined && allows(account, stats, 0o5) && canReach(account, path);
}

function allows(account: Account, stats: Stats, bits: number): boolean {
  const shift = stats.uid === account.uid ? 6 : stats.gid === account.gid ? 3 : 0;
  return ((stats.mode >> shift) & bits) === bits;
}
