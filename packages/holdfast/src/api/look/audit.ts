/** What people did, for programs. */

import { type AuditRow, auditRows } from '../../inspect/audit.js';
import { invalid, shown } from '../../job/errors/holdfast-error.js';
import { isId } from '../../job/id.js';
import { checkInteger } from '../../job/job.js';
import { type Duration, durationMs } from '../../job/options/duration.js';
import { checkKnown, type Known } from '../../job/options/known-options.js';
import type { QueueName } from '../../job/queue-name.js';
import { ACTS, type ActName } from '../../operate/audit.js';
import { type Access, ask } from '../access.js';
import { dated } from './views.js';

/** Which acts to list. What you leave out does not filter. */
export interface AuditRequest {
  /** Only these acts. Default: all. */
  readonly act?: ActName | readonly ActName[];
  /** Only acts on these queues. Default: all. */
  readonly queue?: QueueName | readonly QueueName[];
  /** A part of the role, the actor, the application or the client's address. Default: anybody. */
  readonly who?: string;
  /** Only acts at least so long ago. Default: all. */
  readonly older?: Duration;
  /** Only acts at most so long ago. Default: all. */
  readonly newer?: Duration;
  /** The `next` of the page before. Default: from the latest on. */
  readonly after?: string | null;
  /** At most so many; default 50, at most 1,000. */
  readonly limit?: number;
}

/** One act of a person. */
export interface AuditEntry extends Omit<AuditRow, 'at' | 'act' | 'filter' | 'changes'> {
  readonly at: Date;
  readonly act: ActName;
  /** Which jobs: the filter, or up to 100 ids of those that moved; null: not about jobs. */
  readonly filter: Readonly<Record<string, unknown>> | null;
  /** The queue; null: the act was about none. */
  readonly queue: QueueName | null;
  /** How many jobs moved; null: it was not about jobs. */
  readonly jobs: number | null;
  /** Null: none was given. */
  readonly reason: string | null;
  /** Null: only the database role is known. */
  readonly actor: string | null;
  /** The address of the client; null: a local socket. */
  readonly client: string | null;
  /** What was set; null: nothing. */
  readonly changes: Readonly<Record<string, unknown>> | null;
}

/** A page of the audit, the latest act first. */
export interface AuditPage {
  readonly acts: readonly AuditEntry[];
  /** To be passed as `after`; null: there is nothing further. */
  readonly next: string | null;
}

const OPTIONS = {
  ...{ act: true, queue: true, who: true, older: true, newer: true, after: true, limit: true },
} as const satisfies Known<AuditRequest>;

function texts(value: unknown, what: string, known?: readonly string[]): string[] | undefined {
  if (value === undefined) return undefined;
  const list: unknown[] = Array.isArray(value) ? value : [value];
  const wrong = list.find((one) => typeof one !== 'string' || (known && !known.includes(one)));
  if (list.length > 0 && wrong === undefined) return list as string[];
  throw invalid(
    `${what} is ${shown(wrong)}; nothing was read.${known ? ` Known: ${known.join(', ')}.` : ''}`,
  );
}

const entryOf = (row: AuditRow) => dated(row, ['at']) as AuditEntry;

export async function auditPage(access: Access, request: AuditRequest = {}): Promise<AuditPage> {
  checkKnown(request, OPTIONS, 'audit()', 'Nothing was read.');
  const { who, older, newer, after = null, limit = 50 } = request;
  checkInteger(limit, 'limit', 1, 1_000);
  if (after !== null && !isId(after)) throw invalid(`after is ${shown(after)}; nothing was read.`);
  const filter = {
    acts: texts(request.act, 'act', ACTS),
    queues: texts(request.queue, 'queue'),
    who: texts(who, 'who')?.[0],
    olderMs: older === undefined ? undefined : durationMs(older, 'older'),
    newerMs: newer === undefined ? undefined : durationMs(newer, 'newer'),
  };
  const rows = await ask(access, (db) => auditRows(db, access.schema, filter, { after, limit }));
  const next = rows.length === limit ? (rows.at(-1)?.id ?? null) : null;
  return { acts: rows.map(entryOf), next };
}
