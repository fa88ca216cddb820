/** Which grant is missing when the database refuses a command: its error names a table, and neither the right nor the user. */
import { grantFix } from '../inspect/doctor/rights.js';
import { type Role, rightsOf } from '../inspect/reading/rights.js';
import type { Command } from './command.js';
import { Partly } from './failures.js';
import type { Session } from './session.js';

const OPERATOR = /^(run|delete|retry|discard|cancel|update|pause|resume|drain|replay|prune)$/;
const OWNER = /^(migrate|create|set|drop)$/;

/** Whose rights a command needs; null: the owner's. */
function roleOf({ words }: Pick<Command, 'words'>): Role | null {
  const verb = words.at(-1) as string;
  if (verb === 'enqueue') return 'producer';
  if (OPERATOR.test(verb)) return 'operator';
  return OWNER.test(verb) ? null : 'viewer';
}

/** What to do about it; undefined: it is not known. */
export async function missingGrantFix(
  error: unknown,
  session: Session | null,
  command: Command,
): Promise<string | undefined> {
  const role = roleOf(command);
  const cause = error instanceof Partly ? error.cause : error;
  if ((cause as { code?: unknown } | null)?.code !== '42501' || !session || !role) return undefined;
  try {
    const rights = await session.read((db) => rightsOf(db, session.schema, role));
    if (rights.missing.length === 0)
      return command.words.at(-1) === 'prune'
        ? `run node_modules/holdfast/dist/roles.sql as the owner of the schema, then GRANT holdfast_pruner TO ${rights.user};`
        : undefined;
    return `connect as another user, or as the owner of the schema: ${grantFix(session.schema, role, rights)}`;
  } catch {
    // The refusal itself is the news.
    return undefined;
  }
}
