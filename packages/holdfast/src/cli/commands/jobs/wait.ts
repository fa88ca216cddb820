/** `holdfast jobs wait ID`: waits until a job has ended, and says how. Exit code 0 if it is completed, otherwise 1. */
import { defined } from '../../../job/options/known-options.js';
import { type Call, EXIT } from '../../command.js';
import { durationOption, oneId } from '../../parse/values.js';
import { plain } from '../../print/table.js';

export async function run({ args, given, session, out }: Call): Promise<number> {
  const id = oneId(args);
  const choice = { queue: given.text('queue'), timeout: durationOption(given, 'timeout') };
  const { holdfast } = await import('../../../holdfast.js');
  const hf = holdfast({ ...session.address, pool: session.pool, schema: session.schema });
  const { result: _, ...outcome } = await hf.wait(id, defined(choice));
  await (out.json ? out.value(outcome) : out.line(outcome.status));
  const why = outcome.reason ?? outcome.error;
  if (why !== null && !out.json) out.note(plain(why.split('\n')[0] as string));
  return outcome.status === 'completed' ? EXIT.ok : EXIT.failed;
}
