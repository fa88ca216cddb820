/** `holdfast explain ID`: why is this job not running? */
import { ringOwner } from '../../../api/look/ring.js';
import { explainJob } from '../../../inspect/explain/explain.js';
import { type Call, EXIT } from '../../command.js';
import { oneId } from '../../parse/values.js';
import { pasteable, plain } from '../../print/table.js';

export async function run({ args, given, session, out }: Call): Promise<number> {
  const id = oneId(args);
  const queues = given.texts('queue');
  if (queues) await session.queues(queues);
  const answer = await session.read((db) =>
    explainJob(db, session.schema, id, { queues, ringOwner }),
  );
  const exit = answer.job ? EXIT.ok : EXIT.failed;
  if (out.json) {
    const { payload, result, ...job } = answer.job ?? { payload: null, result: null };
    await out.value({ ...answer, job: answer.job ? job : null });
    return exit;
  }
  const arrow = (fix: string) =>
    out.line(`  ${out.paint('→', 'bold')} ${plain(pasteable(fix, session.schema))}`);
  await out.line(plain(answer.text));
  if (answer.fix) await arrow(answer.fix);
  for (const also of answer.also) {
    await out.line(`Also: ${plain(also.text)}`);
    if (also.fix) await arrow(also.fix);
  }
  return exit;
}
