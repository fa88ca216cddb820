/**
 * What takes jobs out of the archive, with the rights of the owner: to bring them back, and to delete them for good. So
 * nobody needs the right to delete from the archive, and who may replay may not prune.
 */
import { pruneOlder } from '../../../operate/prune.js';
import { replayFinished } from '../../../operate/replay.js';
import type { FunctionFile } from '../../function-file.js';
import { grantAsTable } from '../enqueue/grant-as-table.js';
import { verbatim } from '../protocol/verbatim.js';

const asOwner = (text: string) =>
  text.replace(
    'LANGUAGE plpgsql AS',
    'LANGUAGE plpgsql SECURITY DEFINER\n  SET search_path = pg_catalog, pg_temp AS',
  );

export const archiveVerbs: FunctionFile = {
  name: 'archive-verbs',
  of: 'queue',
  text: `${asOwner(
    verbatim(
      replayFinished,
      ...['the_places tid[]', 'the_ids uuid[]', 'the_completed boolean', 'is_restore boolean'],
    ),
  )}
REVOKE EXECUTE ON FUNCTION holdfast.inbox_verb_replay FROM PUBLIC;
-- Whoever could replay before.
${grantAsTable('inbox_verb_replay', 'inbox_archive', 'DELETE')}
${asOwner(verbatim(pruneOlder, 'the_older_ms bigint', 'the_most integer'))}
REVOKE EXECUTE ON FUNCTION holdfast.inbox_verb_prune_archive_older FROM PUBLIC;
`,
};
