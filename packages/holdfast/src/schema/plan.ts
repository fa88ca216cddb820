/**
 * What has to run to bring a schema from where it stands to what a program knows, as a list of steps. `migrate` runs the
 * first one and asks again; `pendingSql` prints them all.
 *
 * A schema that is not there is made in one transaction. One that is there is brought forward in small ones, so that no
 * transaction holds the locks of two queues: the common part of a migration with its record, then each queue, then the
 * functions whose text differs from what is recorded, then, outside of transactions, the indexes.
 *
 * A program that knows fewer migrations than the schema has does nothing at all: it would put older functions back.
 */
import { loadText, type Names, quoteName } from '../postgres/names.js';
import { checksumOf, type FunctionFile } from './function-file.js';
import type { Migration, OnlineStep } from './migration.js';
import type { Program } from './migrations.js';
import type { QueueState, SchemaState } from './state.js';
import { commonText, queueText, recordsOf, recordsTable } from './texts.js';

export interface Step {
  readonly what: string;
  readonly text: string;
  /** It cannot run in a transaction. */
  readonly online: boolean;
  /** Of a step that makes an index: of which queue. */
  readonly queue?: string;
}

export function plan(state: SchemaState, schema: string, program: Program): Step[] {
  const { migrations } = program;
  const { version } = state;
  if (version === 0) return [fresh(state, schema, program)];
  if (version > migrations.length) return [];
  const steps: Step[] = [];
  let queues = state.queues;
  for (let at = version; ; at += 1) {
    const late = queues.filter(({ migration }) => migration < at);
    for (const queue of late) steps.push(bringQueue(state, schema, program, queue, at));
    queues = queues.map((queue) => ({ ...queue, migration: Math.max(queue.migration, at) }));
    const next = migrations[at];
    if (!next) break;
    steps.push(applyCommon(state, schema, program, next));
  }
  const changed = changedFiles(state, program);
  if (changed.length > 0) steps.push(replaceFunctions(state, schema, changed));
  return [...steps, ...onlineSteps(state, schema, program)];
}

const record = (schema: string, { id, name, breaksBefore }: Migration) =>
  `INSERT INTO ${recordsOf(schema)} (id, name, breaks_before) VALUES (${id}, '${name}', ${breaksBefore});`;

function recordFiles(schema: string, files: readonly FunctionFile[]): string {
  const values = files.map((file) => `  ('${file.name}', '${checksumOf(file)}')`).join(',\n');
  return `INSERT INTO ${quoteName(schema)}.functions (name, checksum) VALUES
${values}
ON CONFLICT (name) DO UPDATE SET checksum = excluded.checksum, applied_at = now();`;
}

function fresh({ exists }: SchemaState, schema: string, program: Program): Step {
  const text = [
    ...(exists ? [] : [`CREATE SCHEMA ${quoteName(schema)};`]),
    recordsTable(schema),
    commonText(schema, program),
    queueText(schema, 'inbox', program),
    ...program.migrations.map((migration) => record(schema, migration)),
    recordFiles(schema, program.functions),
  ].join('\n');
  return { what: 'The whole schema', text, online: false };
}

function applyCommon(
  state: SchemaState,
  schema: string,
  program: Program,
  migration: Migration,
): Step {
  const names = { schema, queue: 'inbox' };
  // What workers find from now on is as new as the migration says.
  const last = migration.id === program.migrations.length;
  const files = last ? changedFiles(state, program).filter((file) => file.of === 'schema') : [];
  const text = [
    loadText(migration.common, names),
    ...files.map((file) => fileText(file, names, state)),
    record(schema, migration),
  ].join('\n');
  return { what: `Migration ${migration.id} (${migration.name})`, text, online: false };
}

function bringQueue(
  state: SchemaState,
  schema: string,
  { migrations, functions }: Program,
  { name: queue, migration: from }: QueueState,
  to: number,
): Step {
  const names = { schema, queue };
  const files = to === migrations.length ? functions.filter((file) => file.of === 'queue') : [];
  const text = [
    ...migrations.slice(from, to).map(({ perQueue }) => loadText(perQueue, names)),
    ...files.map((file) => fileText(file, names, state)),
    loadText(`UPDATE holdfast.queues SET migration = ${to} WHERE name = 'inbox';`, names),
  ].join('\n');
  return { what: `Queue ${queue}, up to migration ${to}`, text, online: false };
}

const changedFiles = ({ checksums }: SchemaState, { functions }: Program) =>
  functions.filter((file) => checksums.get(file.name) !== checksumOf(file));

function replaceFunctions(
  state: SchemaState,
  schema: string,
  files: readonly FunctionFile[],
): Step {
  const text = files.flatMap((file) => {
    const queues = file.of === 'schema' ? ['inbox'] : state.queues.map(({ name }) => name);
    return queues.map((queue) => fileText(file, { schema, queue }, state));
  });
  text.push(recordFiles(schema, files));
  return {
    what: `Functions: ${files.map(({ name }) => name).join(', ')}`,
    text: text.join('\n'),
    online: false,
  };
}

/** Rights survive a replacement, but not a drop. */
function fileText(file: FunctionFile, names: Names, { grants }: SchemaState): string {
  const dropped = [...(file.drop ?? '').matchAll(/FUNCTION (?:IF EXISTS )?holdfast\.(\w+)/g)];
  const again = dropped
    .map(([, name]) => name as string)
    .filter((name, at, all) => all.indexOf(name) === at && file.text.includes(`.${name}(`))
    .flatMap((name) => grants.get(name.replace(/^inbox(?=_)/, names.queue)) ?? []);
  return [
    loadText(`${file.drop ?? ''}${file.text}`, names),
    ...again.map((grant) => `${grant};`),
  ].join('\n');
}

const CREATED = /^CREATE (?:UNIQUE )?INDEX CONCURRENTLY IF NOT EXISTS (\w+)/;
const DROPPED = /^DROP INDEX CONCURRENTLY IF EXISTS holdfast\.(\w+)/;

/** An index that an interrupted build left behind is not used: it is dropped and made again. */
function onlineSteps(
  { queues, indexes, oldestWorker }: SchemaState,
  schema: string,
  program: Program,
): Step[] {
  const steps = program.migrations
    .flatMap(({ online }) => online ?? [])
    .filter(({ unlessOlderThan = 0 }) => oldestWorker >= unlessOlderThan);
  return queues.flatMap(({ name: queue, ordering }) => {
    const names = { schema, queue };
    const what = `Queue ${queue}`;
    return steps
      .filter(({ orderings }) => orderings?.includes(ordering) ?? true)
      .flatMap((step): Step[] => [
        ...indexTexts(step, names, indexes).map((text) => ({ what, text, online: true, queue })),
        ...swapTexts(step, names, indexes).map((text) => ({ what, text, online: false })),
      ]);
  });
}

const ofQueue = (index: string, { queue }: Names) => index.replace(/^inbox(?=_)/, queue);

function swapTexts({ swap }: OnlineStep, names: Names, indexes: SchemaState['indexes']): string[] {
  return swap && indexes.has(ofQueue(swap.drops, names)) ? [loadText(swap.text, names)] : [];
}

function indexTexts({ text }: OnlineStep, names: Names, indexes: SchemaState['indexes']): string[] {
  const [, created] = CREATED.exec(text) ?? [];
  const [, dropped] = DROPPED.exec(text) ?? [];
  const made = created ?? dropped;
  if (made === undefined) throw new Error(`This online step is not understood: ${text}`);
  const index = ofQueue(made, names);
  const state = indexes.get(index);
  if (dropped) return state ? [`${loadText(text, names)};`] : [];
  const drop = `DROP INDEX CONCURRENTLY IF EXISTS ${quoteName(names.schema)}.${quoteName(index)};`;
  const create = `${loadText(text, names)};`;
  if (state === 'valid') return [];
  // Somebody else is at it.
  if (state === 'building') return ['SELECT pg_sleep(0.2);'];
  return state === 'invalid' ? [drop, create] : [create];
}
