/**
 * The files of a migrated PGlite, made once and kept in the temporary folder of the system, so that a test
 * process loads them in place of running initdb, which takes seconds.
 *
 * It is a cache and nothing more: a file that is missing, cut off or spoiled, a folder that cannot be written, or
 * one that belongs to somebody else, and the files are made anew. A file appears whole or not at all, so
 * processes that start at once do not disturb each other. The name holds a digest of all that the files come
 * from. The eight that were used last are kept.
 */
import { Blob } from 'node:buffer';
import { createHash, randomBytes } from 'node:crypto';
import { lstat, mkdir, readdir, readFile, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const KEPT = 8;
const DIGEST_BYTES = 32;
const PATTERN = /^pglite-[0-9a-f]{64}\.tar/;

const digest = (...parts: readonly (string | Uint8Array)[]): Buffer => {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
};

/** Of the user alone: what lies in it is loaded unseen. */
function folderPath(): string {
  // Where there are no numbers, on Windows, every user has a temporary folder of his own.
  return join(tmpdir(), `holdfast-${process.getuid?.() ?? 'user'}`);
}

async function isOurs(folder: string): Promise<boolean> {
  const stats = await lstat(folder);
  if (!stats.isDirectory()) return false;
  const uid = process.getuid?.();
  return uid === undefined || (stats.uid === uid && (stats.mode & 0o022) === 0);
}

export class PgliteFiles {
  readonly #folder: string;
  readonly #path: string;

  /** What the files come from: every text that would make other ones. */
  constructor(sources: readonly string[], folder = folderPath()) {
    this.#folder = folder;
    this.#path = join(folder, `pglite-${digest(JSON.stringify(sources)).toString('hex')}.tar`);
  }

  /** Null: there are none, or none that can be trusted. */
  async read(): Promise<Blob | null> {
    try {
      if (!(await isOurs(this.#folder))) return null;
      const bytes = await readFile(this.#path);
      const tar = bytes.subarray(DIGEST_BYTES);
      if (!digest(tar).equals(bytes.subarray(0, DIGEST_BYTES))) return null;
      const now = new Date();
      await utimes(this.#path, now, now).catch(() => undefined);
      return new Blob([tar]);
    } catch {
      return null;
    }
  }

  /** Best effort: without it the next process is slow, and that is all. */
  async write(files: Blob): Promise<void> {
    const draft = `${this.#path}.${process.pid}.${randomBytes(4).toString('hex')}`;
    try {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 });
      if (!(await isOurs(this.#folder))) return;
      const tar = new Uint8Array(await files.arrayBuffer());
      await writeFile(draft, Buffer.concat([digest(tar), tar]), { flag: 'wx', mode: 0o600 });
      await rename(draft, this.#path);
      await this.#prune();
    } catch {
      await rm(draft, { force: true }).catch(() => undefined);
    }
  }

  async #prune(): Promise<void> {
    const names = (await readdir(this.#folder)).filter((name) => PATTERN.test(name));
    const files = names.map(async (name) => {
      const path = join(this.#folder, name);
      return { path, usedAt: (await lstat(path)).mtimeMs };
    });
    const found = (await Promise.all(files)).sort((a, b) => b.usedAt - a.usedAt);
    await Promise.all(found.slice(KEPT).map(({ path }) => rm(path, { force: true })));
  }
}
