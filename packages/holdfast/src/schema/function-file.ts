/**
 * What a file of functions/ is: the current text of one or a few functions. `migrate` replaces them wherever the
 * recorded checksum differs, after the numbered migrations.
 */
import { hash32 } from '../job/key.js';

export interface FunctionFile {
  /** The name of the file. It is the key of the row that records the checksum. */
  readonly name: string;
  /** Whether there is one for the schema or one for each queue. */
  readonly of: 'schema' | 'queue';
  /**
   * Runs before `text`. Postgres cannot replace a function whose parameters or result have changed, so name the old
   * one here: `DROP FUNCTION IF EXISTS holdfast.inbox_foo(text, integer);`. Rights that were granted on it are granted
   * again on its successor of the same name.
   */
  readonly drop?: string;
  /** `CREATE OR REPLACE FUNCTION …`, with its REVOKE if it has one. It may run again at any time. */
  readonly text: string;
}

/** 64 bits are enough to see that a text was edited. By our own hash: the lab migrates in a browser. */
export const checksumOf = ({ drop = '', text }: FunctionFile): string =>
  ['a', 'b']
    .map((salt) => hash32(`${salt}${drop}\n${text}`).toString(16).padStart(8, '0'))
    .join('');
