/** `holdfast webhooks ls | show | add | set | disable | enable | rotate | rm`. */
import { span } from '../../../inspect/reading/words.js';
import type { Duration } from '../../../job/options/duration.js';
import { defined } from '../../../job/options/known-options.js';
import type { EndpointChanges } from '../../../shapes/webhooks/endpoint-options.js';
import type { Endpoint } from '../../../shapes/webhooks/views.js';
import { confirmed } from '../../ask.js';
import { type Call, EXIT } from '../../command.js';
import { UsageError } from '../../failures.js';
import { countIfGiven, parsePayload, readStdin } from '../../parse/values.js';
import type { TableColumn } from '../../print/table.js';
import { worry } from '../../print/views.js';
import { endpointId, hooksOf, pageOf } from './hooks.js';

const rateText = (rate: Endpoint['rate']) =>
  rate && `${rate.limit.toLocaleString('en')}/${span(rate.perMs)}, burst ${rate.burst}`;

const faresText = ({ state, stateReason, failingSince }: Endpoint) =>
  state === 'disabled'
    ? `disabled${stateReason ? `: ${stateReason}` : ''}`
    : failingSince
      ? `failing since ${failingSince.toISOString()}`
      : 'active';

const COLUMNS: readonly TableColumn<Endpoint>[] = [
  { title: 'ENDPOINT', of: ({ id }) => id },
  { title: 'TENANT', of: ({ tenant }) => tenant },
  { title: 'EVENTS', of: ({ events }) => events.join(', ') },
  {
    title: 'STATE',
    of: faresText,
    style: ({ state, failingSince }) => worry(state === 'disabled' || failingSince !== null),
  },
  { title: 'URL', of: ({ url }) => url },
];

export async function runList(call: Call): Promise<void> {
  const { given, out } = call;
  const { hooks } = await hooksOf(call);
  const [tenant, state] = [given.text('tenant'), given.text('state') as Endpoint['state']];
  const page = await hooks.endpoints.list(defined({ tenant, state, ...pageOf(call, 'after') }));
  await (page.endpoints.length > 0
    ? out.rows(page.endpoints, COLUMNS)
    : out.note('No endpoint matches.'));
  if (page.next !== null) out.note(`There are more: go on with --after ${page.next}`);
}

export async function runShow(call: Call): Promise<void> {
  const { out } = call;
  const { hooks } = await hooksOf(call);
  const one = await hooks.endpoints.get(endpointId(call));
  if (out.json) return out.value(one);
  const { id, tenant, url, events, headers, ordered, concurrency, rate } = one;
  await out.facts({
    ...{ id, tenant, url, events: events.join(', '), state: faresText(one), by: one.stateBy },
    headers: headers.join(', ') || null,
    order: ordered ? 'one at a time, as they were sent' : null,
    'at once': ordered ? null : concurrency,
    rate: rateText(rate),
    rests: one.restsUntil && `until ${one.restsUntil.toISOString()}`,
    ...{ secrets: one.secrets, waiting: one.waiting, held: one.held, failed: one.failed },
    ...{ made: one.createdAt.toISOString(), changed: one.updatedAt.toISOString() },
  });
}

function rateOf(text: string | undefined) {
  const [, limit, per] = /^(\d+)\/(.+)$/.exec(text ?? '') ?? [];
  if (text === undefined) return undefined;
  if (per === undefined)
    throw new UsageError(`--rate is written N/TIME, such as 100/1m, or none, not "${text}".`);
  return { limit: Number(limit), per: per as Duration };
}

/** As JSON, or from stdin: their values are secrets, and a line of a shell is kept in its history. */
async function headersOf(word: string | undefined) {
  if (word === undefined) return undefined;
  const text = word === '-' ? await readStdin() : word;
  return parsePayload(text, 'nothing was changed', '--headers') as Record<string, string>;
}

async function changesOf({ given }: Call): Promise<EndpointChanges> {
  const rate = given.text('rate');
  return defined({
    ...{ url: given.text('to'), events: given.texts('event') },
    ...{
      headers: await headersOf(given.text('headers')),
      rate: rate === 'none' ? null : rateOf(rate),
    },
    concurrency: countIfGiven(given, 'concurrency'),
  });
}

export async function runSet(call: Call): Promise<void> {
  const { given, out } = call;
  const id = endpointId(call);
  const changes = await changesOf(call);
  if (Object.keys(changes).length === 0)
    throw new UsageError('Say what to change: --to, --event, --headers, --rate or --concurrency.');
  const { hooks, act } = await hooksOf(call);
  const before = await hooks.endpoints.get(id);
  const one = await hooks.endpoints.update(id, changes, act);
  await (out.json ? out.value(one) : out.line(one.id));
  if (before.headers.length > 0 && one.headers.length === 0 && given.text('headers') === undefined)
    out.note('Its headers were those of the old origin and are gone: give them with --headers.');
}

export async function runAdd(call: Call): Promise<void> {
  const { args, given, out } = call;
  const [tenant, url, ...more] = args;
  if (tenant === undefined || url === undefined || more.length > 0)
    throw new UsageError('Write: holdfast webhooks add TENANT URL.');
  const wanted = await changesOf(call);
  const { hooks, act } = await hooksOf(call);
  const ordered = given.flag('ordered');
  const made = await hooks.endpoints.create({ ...wanted, tenant, url, ordered }, act);
  await (out.json ? out.value(made) : out.line(`${made.id} ${made.secret}`));
  out.note('The secret is shown this once. webhooks rotate makes another one.');
}

export async function runDisable(call: Call): Promise<void> {
  const { hooks, act } = await hooksOf(call);
  const one = await hooks.endpoints.disable(endpointId(call), act);
  await (call.out.json ? call.out.value(one) : call.out.line(one.id));
  call.out.note('Its deliveries are held until it is enabled.');
}

export async function runEnable(call: Call): Promise<void> {
  const { hooks, act } = await hooksOf(call);
  const one = await hooks.endpoints.enable(endpointId(call), act);
  await (call.out.json ? call.out.value(one) : call.out.line(one.id));
  call.out.note(`${one.replayed.toLocaleString('en')} deliveries are due now.`);
}

export async function runRotate(call: Call): Promise<void> {
  const { hooks, act } = await hooksOf(call);
  const overlap = call.given.text('overlap') as Duration | undefined;
  const made = await hooks.endpoints.rotate(endpointId(call), { ...act, ...defined({ overlap }) });
  await (call.out.json ? call.out.value(made) : call.out.line(made.secret));
  call.out.note('The secret is shown this once. Until the overlap ends the old one signs too.');
}

export async function runRemove(call: Call): Promise<number> {
  const id = endpointId(call);
  const { hooks, act } = await hooksOf(call);
  const { url, waiting, held, failed } = await hooks.endpoints.get(id);
  const count = (waiting + held + failed).toLocaleString('en');
  if (!(await confirmed(call, `remove the endpoint ${url} and cancel ${count} deliveries`)))
    return EXIT.failed;
  const done = await hooks.endpoints.remove(id, act);
  await (call.out.json ? call.out.value({ id, ...done }) : call.out.line(id));
  return EXIT.ok;
}
