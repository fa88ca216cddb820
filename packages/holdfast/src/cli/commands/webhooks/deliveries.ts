/** `holdfast webhooks test | deliveries | resend`. */
import { firstLine } from '../../../inspect/reading/words.js';
import type { Duration } from '../../../job/options/duration.js';
import { defined } from '../../../job/options/known-options.js';
import type { TestResult } from '../../../shapes/webhooks/deps.js';
import type { WebhookAttempt } from '../../../shapes/webhooks/views.js';
import { confirmed } from '../../ask.js';
import { type Call, EXIT } from '../../command.js';
import { Failure, UsageError } from '../../failures.js';
import { checkIds } from '../../parse/values.js';
import { right, type TableColumn } from '../../print/table.js';
import { endpointId, hooksOf, pageOf } from './hooks.js';

const columns = (answers: boolean): readonly TableColumn<WebhookAttempt>[] => [
  { title: 'AT', of: ({ at }) => at.toISOString() },
  { title: 'DELIVERY', of: ({ delivery }) => delivery },
  { title: 'MESSAGE', of: ({ message }) => message },
  { title: 'TYPE', of: ({ type }) => type },
  right('TRY', ({ attempt }) => attempt),
  right(
    'STATUS',
    ({ status }) => status,
    ({ delivered }) => (delivered ? 'good' : 'bad'),
  ),
  right('MS', ({ ms }) => ms),
  {
    title: answers ? 'ANSWER' : 'ERROR',
    of: ({ error, answer }) => (answers ? (answer ?? error) : firstLine(error)),
  },
];

export async function runList(call: Call): Promise<void> {
  const { args, given, out } = call;
  const { hooks } = await hooksOf(call);
  const endpoint = args.length === 0 ? undefined : endpointId(call);
  const delivered = given.flag('failed') ? false : undefined;
  const request = { endpoint, delivered, message: given.text('message') };
  const page = await hooks.deliveries(defined({ ...request, ...pageOf(call, 'before') }));
  const shown = given.flag('answer')
    ? page.attempts
    : page.attempts.map((one) => ({ ...one, answer: null }));
  if (shown.length === 0) out.note('No attempt matches.');
  else await out.rows(shown, columns(given.flag('answer')));
  if (page.next !== null) out.note(`There are more: go on with --after ${page.next}`);
}

export async function runTest(call: Call): Promise<number> {
  const { given, out } = call;
  const { hf, hooks } = await hooksOf(call);
  const { message, delivery } = await hooks.test(endpointId(call));
  const timeout = (given.text('timeout') ?? '30s') as Duration;
  const { result, status } = await hf.wait(delivery, { timeout });
  if (status !== 'completed') throw new Failure(`The test ended as ${status}.`);
  const found = result as TestResult;
  if (out.json) await out.value({ message, delivery, ...found });
  else await out.line(found.error ?? `${found.status} after ${found.ms} ms`);
  return found.delivered ? EXIT.ok : EXIT.failed;
}

export async function runResend(call: Call): Promise<number> {
  const { args, out } = call;
  if (args.length === 0)
    throw new UsageError('Say which deliveries: holdfast webhooks deliveries lists them.');
  const ids = checkIds(args);
  const { hooks, act } = await hooksOf(call);
  if (!(await confirmed(call, `send ${ids.length} deliveries again`))) return EXIT.failed;
  const found = await hooks.resend(ids, act);
  for (const id of found) await (out.json ? out.value({ id }) : out.line(id));
  const left = ids.filter((id) => !found.includes(id));
  if (left.length > 0) out.note(`Neither in the queue nor in its archive: ${left.join(', ')}`);
  return left.length === 0 ? EXIT.ok : EXIT.failed;
}
