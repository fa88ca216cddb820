import { int8, text, textArray, uuid } from '../postgres/statement.js';
import { type Answer, asks } from './reading/asks.js';
import { moment, parsed } from './reading/columns.js';

export interface AuditFilter {
  readonly acts?: readonly string[] | undefined;
  readonly queues?: readonly string[] | undefined;
  /** A part of the role, the actor, the application or the client's address, in upper or lower case. */
  readonly who?: string | undefined;
  /** At least so long ago. */
  readonly olderMs?: number | undefined;
  /** At most so long ago. */
  readonly newerMs?: number | undefined;
}

/** Fewer than `limit`: there are no more. */
export const auditRows = asks({
  name: 'list_audit',
  text: `
SELECT a.id, a.at, a.act, a.queue, a.jobs, a.filter, a.changes, a.reason, a.actor, a.role, a.application,
  host(a.client) AS client
FROM holdfast.audit AS a
WHERE a.id < coalesce($6::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
  AND ($1::text[] IS NULL OR a.act = ANY ($1::text[]))
  AND ($2::text[] IS NULL OR a.queue = ANY ($2::text[]))
  AND ($3::text IS NULL
    OR strpos(lower(concat_ws(E'\\n', a.role, a.actor, a.application, host(a.client))), lower($3::text)) > 0)
  AND ($4::bigint IS NULL OR a.at <= now() - $4::bigint * interval '1 millisecond')
  AND ($5::bigint IS NULL OR a.at >= now() - $5::bigint * interval '1 millisecond')
ORDER BY a.id DESC
LIMIT $7::integer`,
  columns: {
    id: uuid,
    at: moment,
    act: text,
    queue: text.orNull,
    jobs: int8.orNull,
    filter: parsed,
    changes: parsed,
    reason: text.orNull,
    actor: text.orNull,
    role: text,
    application: text,
    client: text.orNull,
  },
  params: (
    { acts, queues, who, olderMs, newerMs }: AuditFilter,
    { after, limit }: { readonly after?: string | null; readonly limit: number },
  ) => [
    ...[acts, queues].map((list) => (list ? textArray(list) : null)),
    ...[who ?? null, olderMs ?? null, newerMs ?? null, after ?? null, limit],
  ],
});

export type AuditRow = Answer<typeof auditRows>;
