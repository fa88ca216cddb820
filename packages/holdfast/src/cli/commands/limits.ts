/** `holdfast limits ls | set | reset | rm`. */
import { changeLimit, type LimitView, limitViews, NO_LIMIT, typeOf } from '../../api/act/limits.js';
import { span } from '../../inspect/reading/words.js';
import { checkLimit, type Limit } from '../../job/limit.js';
import type { Duration } from '../../job/options/duration.js';
import { defined } from '../../job/options/known-options.js';
import { actOptions } from '../actor.js';
import { confirmed } from '../ask.js';
import { type Call, EXIT, type Given } from '../command.js';
import { UsageError } from '../failures.js';
import { mistyped } from '../mistyped.js';
import { countIfGiven, countOption } from '../parse/values.js';
import { right, type TableColumn } from '../print/table.js';
import { worry } from '../print/views.js';

const rateText = ({ rate, keyed }: Pick<LimitView, 'rate' | 'keyed'>) =>
  rate === null
    ? null
    : `${rate.limit.toLocaleString('en')}/${span(rate.perMs)}, burst ${rate.burst.toLocaleString('en')}${keyed ? ', by key' : ''}`;

function limitText(limit: Limit | null, keyed: boolean): string {
  if (limit === null) return 'none';
  const { concurrency, rate } = limit;
  const parts = [concurrency === null ? null : `${concurrency} at once`, rateText({ rate, keyed })];
  return parts.filter(Boolean).join(', ') || 'none';
}

const columns: readonly TableColumn<LimitView>[] = [
  { title: 'QUEUE', of: ({ queue }) => queue },
  { title: 'TYPE', of: ({ type }) => type ?? '(all)' },
  right('RUNNING', ({ running, concurrency }) =>
    concurrency === null ? running : `${running} of ${concurrency}`,
  ),
  { title: 'RATE', of: rateText },
  right('WAITING', ({ waiting }) => waiting),
  right(
    'EMPTY IN',
    ({ emptyInMs, grows }) => (grows ? 'never' : emptyInMs === null ? null : span(emptyInMs)),
    ({ grows }) => worry(grows),
  ),
  {
    title: 'SET BY',
    of: ({ overridden }) => (overridden ? 'an operator' : 'code'),
    style: ({ overridden }) => worry(overridden),
  },
  {
    title: 'DECLARED',
    of: ({ declared, keyed, overridden }) =>
      overridden ? declared && limitText(declared, keyed) : 'in force',
  },
];

export async function runList({ given, session, out }: Call): Promise<void> {
  const queue = given.text('queue');
  if (queue) await session.queues([queue]);
  const rows = await session.read((db) => limitViews(db, session.schema, queue ?? null));
  if (out.json) for (const row of rows) await out.value(row);
  else if (rows.length > 0) await out.rows(rows, columns);
  else out.note('There is no limit.');
}

/** What the options say of a limit, beside what is in force. */
function wanted(given: Given, name: string): (now: Limit | null) => Limit {
  const [concurrency, rate] = [given.text('concurrency'), given.text('rate')];
  const burst = countIfGiven(given, 'burst');
  if (concurrency === undefined && rate === undefined && burst === undefined)
    throw new UsageError('Say what to set: --concurrency N, --rate N/TIME, --burst N, or none.');
  const parts = rate === undefined ? null : /^(\d+)\/(.+)$/.exec(rate);
  if (rate !== undefined && rate !== 'none' && !parts)
    throw new UsageError(`--rate is written N/TIME, such as 100/1m, or none; not "${rate}".`);
  return (now) => {
    let pace = now?.rate ? { limit: now.rate.limit, per: now.rate.perMs as Duration } : undefined;
    if (rate !== undefined)
      pace = parts ? { limit: Number(parts[1]), per: parts[2] as Duration } : undefined;
    if (burst !== undefined && !pace)
      throw new UsageError('--burst is about a rate; add --rate N/TIME.');
    const most = burst ?? (rate === undefined ? now?.rate?.burst : undefined);
    let places = now?.concurrency ?? undefined;
    if (concurrency !== undefined)
      places = concurrency === 'none' ? undefined : countOption(given, 'concurrency', 1);
    if (places === undefined && !pace) return NO_LIMIT;
    const paced = pace && { ...pace, ...defined({ burst: most }) };
    return checkLimit(defined({ concurrency: places, rate: paced }), name, 'No limit was set.');
  };
}

async function change(
  call: Call,
  act: 'set' | 'reset' | 'remove',
  limit: (now: Limit | null) => Limit | null,
): Promise<number> {
  const { args, given, session, out } = call;
  const queue = given.text('queue') ?? 'inbox';
  await session.queues([queue]);
  const names = session.names(queue);
  const type = args[0] === undefined ? null : typeOf(args[0]);
  const limited = `limit of ${type === null ? '' : `"${type}" of `}queue "${queue}"`;
  if (act === 'remove' && !(await confirmed(call, `remove the ${limited}`))) return EXIT.failed;
  const options = actOptions(given);
  const done = await changeLimit(session.pool, names, act, { type, limit }, options);
  const { before, after } = done;
  if (out.json) await out.value({ queue, type, ...done });
  else await out.line(`${limitText(after, false)} (was ${limitText(before, false)})`);
  out.note(
    act === 'set'
      ? `The ${limited} is ${limitText(after, false) === 'none' ? 'off, whatever code declares' : 'in force'}. Deploys do not change it; holdfast limits reset goes back to what code declares.`
      : act === 'reset'
        ? `The ${limited} is what code declares.`
        : `The ${limited} is gone, until a worker starts that declares it.`,
  );
  const doubt =
    act === 'set' && type !== null && before === null
      ? await mistyped(session, queue, { type })
      : null;
  if (doubt) out.note(doubt);
  return EXIT.ok;
}

export const runSet = (call: Call) => {
  const { queue, name } = { queue: call.given.text('queue') ?? 'inbox', name: call.args[0] };
  return change(call, 'set', wanted(call.given, name ? `Job "${name}"` : `Queue "${queue}"`));
};
export const runReset = (call: Call) => change(call, 'reset', () => null);
export const runRemove = (call: Call) => change(call, 'remove', () => null);
