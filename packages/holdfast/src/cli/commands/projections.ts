/** `holdfast projections …`: what the entry `holdfast/projections` shows and does. */
import { holdfast } from '../../holdfast.js';
import { firstLine, span } from '../../inspect/reading/words.js';
import { projections } from '../../shapes/projections/operate.js';
import type { ProjectionInfo, Projections, StoppedKey } from '../../shapes/projections/views.js';
import { confirmed } from '../ask.js';
import { type Call, EXIT } from '../command.js';
import { UsageError } from '../failures.js';
import { right, type TableColumn } from '../print/table.js';

async function on<Value>(
  { session }: Call,
  work: (all: Projections) => Promise<Value>,
): Promise<Value> {
  const hf = holdfast({ pool: session.pool, schema: session.schema, log: 'silent' });
  try {
    return await work(projections(hf));
  } finally {
    await hf.close();
  }
}

function nameOf({ args }: Call): string {
  const [name, ...rest] = args;
  if (name !== undefined && rest.length === 0) return name;
  throw new UsageError('Say which projection, by its name: holdfast projections ls has them.');
}

function atMostOne({ args }: Call): string | undefined {
  if (args.length > 1) throw new UsageError('Name one projection, or none for all.');
  return args[0];
}

function versionOf({ given }: Call): { version?: number } {
  const word = given.text('version');
  if (word === undefined) return {};
  if (!/^[1-9]\d{0,8}$/.test(word))
    throw new UsageError(`--version takes a whole number, not "${word}".`);
  return { version: Number(word) };
}

/** For the row in the audit. */
function actOf({ given }: Call): { reason?: string } {
  const reason = given.text('reason');
  return reason === undefined ? {} : { reason };
}

const BUILDS: readonly TableColumn<ProjectionInfo>[] = [
  { title: 'PROJECTION', of: ({ name }) => name },
  right('BUILD', ({ id }) => id),
  right('VERSION', ({ version }) => version),
  {
    title: 'STATE',
    of: ({ state, refused }) => (refused ? `${state}, refused` : state),
    style: ({ refused }) => (refused ? 'bad' : null),
  },
  right('BEHIND', ({ events }) => events),
  { title: 'LAG', of: ({ events, lagMs }) => (events === 0 ? null : span(lagMs)) },
  right('READ', ({ applied }) => applied),
  {
    title: 'STOPPED KEYS',
    of: ({ stopped }) => (stopped === 0 ? null : String(stopped)),
    style: ({ stopped }) => (stopped > 0 ? 'bad' : null),
  },
  { title: 'TABLES', of: ({ schema }) => schema },
];

const STOPS: readonly TableColumn<StoppedKey>[] = [
  { title: 'PROJECTION', of: ({ name }) => name },
  right('BUILD', ({ id }) => id),
  { title: 'KEY', of: ({ key }) => key },
  { title: 'EVENT', of: ({ eventId }) => eventId },
  { title: 'TYPE', of: ({ type }) => type },
  { title: 'SINCE', of: ({ since }) => since.toISOString() },
  right('WAITING', ({ parked }) => parked),
  { title: 'ERROR', of: ({ error }) => firstLine(error) },
];

export async function runList(call: Call): Promise<void> {
  const rows = await on(call, (all) => all.list(atMostOne(call)));
  if (rows.length === 0) call.out.note('There is no projection.');
  else await call.out.rows(rows, BUILDS);
}

export async function runStops(call: Call): Promise<void> {
  const rows = await on(call, (all) => all.stops(atMostOne(call)));
  if (rows.length === 0) call.out.note('No key has stopped.');
  else await call.out.rows(rows, STOPS);
}

export async function runResume(call: Call): Promise<void> {
  const key = call.given.text('key');
  const name = nameOf(call);
  const keys = await on(call, (all) =>
    all.resume(name, { ...actOf(call), ...(key !== undefined && { key }) }),
  );
  await (call.out.json ? call.out.value({ name, keys }) : call.out.line(`${keys} keys go on`));
}

export async function runSkip(call: Call): Promise<number> {
  const [name, event, ...rest] = call.args;
  if (name === undefined || event === undefined || rest.length > 0)
    throw new UsageError(
      'Write: holdfast projections skip NAME EVENT. holdfast projections stops has the ids of events.',
    );
  if (!(await confirmed(call, `pass over event ${event}: the read model of ${name} will lack it`)))
    return EXIT.failed;
  const keys = await on(call, (all) => all.skip(name, event, actOf(call)));
  await (call.out.json
    ? call.out.value({ name, event, keys })
    : call.out.line(`${keys} keys go on`));
  if (keys === 0) call.out.note('No key stands at this event.');
  return EXIT.ok;
}

export async function runRebuild(call: Call): Promise<void> {
  const name = nameOf(call);
  const build = await on(call, (all) => all.rebuild(name, actOf(call)));
  await (call.out.json ? call.out.value({ name, build }) : call.out.line(`build ${build} began`));
}

export async function runPromote(call: Call): Promise<void> {
  const name = nameOf(call);
  const build = await on(call, (all) => all.promote(name, { ...versionOf(call), ...actOf(call) }));
  await (call.out.json ? call.out.value({ name, build }) : call.out.line(`build ${build} is live`));
}

export async function runRemove(call: Call): Promise<number> {
  const name = nameOf(call);
  if (!(await confirmed(call, `drop the builds of ${name} that are not live, with their tables`)))
    return EXIT.failed;
  const removed = await on(call, (all) => all.remove(name, { ...versionOf(call), ...actOf(call) }));
  await (call.out.json
    ? call.out.value({ name, removed })
    : call.out.line(`${removed} builds were removed`));
  return EXIT.ok;
}

export async function runRebase(call: Call): Promise<void> {
  const name = nameOf(call);
  const rebuild = call.given.flag('rebuild');
  await on(call, (all) => all.rebase(name, { rebuild, ...actOf(call) }));
  await (call.out.json ? call.out.value({ name }) : call.out.line(`${name} may start here now`));
}
