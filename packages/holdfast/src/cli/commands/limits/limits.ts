/** `holdfast limits ls | set | reset | rm`. */
import {
  changeLimit,
  type LimitView,
  limitViews,
  NO_LIMIT,
  typeOf,
} from '../../../api/act/limits.js';
import { span } from '../../../inspect/reading/words.js';
import { checkLimit, type Limit, type LimitOptions } from '../../../job/limit.js';
import type { Duration } from '../../../job/options/duration.js';
import { actOptions } from '../../actor.js';
import { confirmed } from '../../ask/confirm.js';
import { mistyped } from '../../ask/mistyped.js';
import { type Call, EXIT, type Given } from '../../command.js';
import { UsageError } from '../../failures.js';
import { countOption } from '../../parse/filters.js';
import type { TableColumn } from '../../print/table.js';

const rateText = ({ rate, keyed }: Pick<LimitView, 'rate' | 'keyed'>) =>
  rate === null
    ? null
    : `${rate.limit.toLocaleString('en')}/${span(rate.perMs)}, burst ${rate.burst.toLocaleString('en')}${keyed ? ', by key' : ''}`;

function declaredText({ declared, keyed, overridden }: LimitView): string | null {
  if (!overridden) return 'in force';
  return declared === null ? null : limitText(declared, keyed);
}

function limitText(limit: Limit | null, keyed: boolean): string {
  if (limit === null) return 'none';
  const { concurrency, rate } = limit;
  const parts = [concurrency === null ? null : `${concurrency} at once`, rateText({ rate, keyed })];
  return parts.filter(Boolean).join(', ') || 'none';
}

const columns: readonly TableColumn<LimitView>[] = [
  { title: 'QUEUE', of: ({ queue }) => queue },
  { title: 'TYPE', of: ({ type }) => type ?? '(all)' },
  {
    title: 'RUNNING',
    of: ({ running, concurrency }) =>
      concurrency === null ? running : `${running} of ${concurrency}`,
    align: 'right',
  },
  { title: 'RATE', of: rateText },
  { title: 'WAITING', of: ({ waiting }) => waiting, align: 'right' },
  {
    title: 'SET BY',
    of: ({ overridden }) => (overridden ? 'an operator' : 'code'),
    style: ({ overridden }) => (overridden ? 'worry' : null),
  },
  { title: 'DECLARED', of: declaredText },
];

export async function runList({ given, session, out }: Call): Promise<void> {
  const queue = given.text('queue');
  if (queue) await session.queues([queue]);
  const rows = await session.read((db) => limitViews(db, session.schema, queue ?? null));
  if (out.json) for (const row of rows) await out.value(row);
  else if (rows.length > 0) await out.rows(rows, columns);
  else out.note('There is no limit.');
}

async function which({ args, given, session }: Call, verb: string) {
  const [type, ...rest] = args;
  if (rest.length > 0) throw new UsageError(`Write: holdfast limits ${verb} [TYPE]`);
  const queue = given.text('queue') ?? 'inbox';
  await session.queues([queue]);
  return {
    names: session.names(queue),
    type: type === undefined ? null : typeOf(type),
    name: type === undefined ? `queue "${queue}"` : `"${type}" of queue "${queue}"`,
  };
}

/** What the options say of a limit, beside what is in force. */
function wanted(given: Given, name: string): (now: Limit | null) => Limit {
  const [concurrency, rate] = [given.text('concurrency'), given.text('rate')];
  const burst = given.text('burst') === undefined ? undefined : countOption(given, 'burst', 1);
  if (concurrency === undefined && rate === undefined && burst === undefined)
    throw new UsageError('Say what to set: --concurrency N, --rate N/TIME, --burst N, or none.');
  const parts = rate === undefined ? null : /^(\d+)\/(.+)$/.exec(rate);
  if (rate !== undefined && rate !== 'none' && !parts)
    throw new UsageError(`--rate is written N/TIME, such as 100/1m, or none; not "${rate}".`);
  return (now) => {
    const kept = now?.rate ? { limit: now.rate.limit, per: now.rate.perMs } : undefined;
    const pace =
      rate === undefined
        ? kept
        : parts
          ? { limit: Number(parts[1]), per: parts[2] as Duration }
          : undefined;
    if (burst !== undefined && !pace)
      throw new UsageError('--burst is about a rate; add --rate N/TIME.');
    const most = burst ?? (rate === undefined ? now?.rate?.burst : undefined);
    const places =
      concurrency === undefined
        ? (now?.concurrency ?? undefined)
        : concurrency === 'none'
          ? undefined
          : countOption(given, 'concurrency', 1);
    if (places === undefined && !pace) return NO_LIMIT;
    const options: LimitOptions = {
      ...(places !== undefined && { concurrency: places }),
      ...(pace && { rate: { ...pace, ...(most !== undefined && { burst: most }) } }),
    };
    return checkLimit(options, name, 'No limit was set.');
  };
}

async function change(
  call: Call,
  act: 'set' | 'reset' | 'remove',
  limit: (now: Limit | null) => Limit | null,
): Promise<number> {
  const { given, session, out } = call;
  const { names, type, name } = await which(call, act === 'remove' ? 'rm' : act);
  const limited = `limit of ${name}`;
  if (act === 'remove' && !(await confirmed(call, `remove the ${limited}`))) return EXIT.failed;
  const options = actOptions(given);
  const done = await changeLimit(session.pool, names, act, { type, limit }, options);
  const { before, after, overridden } = done;
  if (out.json) await out.value({ queue: names.queue, type, before, after, overridden });
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
      ? await mistyped(session, names.queue, { type })
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
