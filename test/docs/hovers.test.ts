/** What an editor shows of a name: everything that users type says in a sentence what it is, in the declarations that are shipped. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { Declarations } from '../support/declarations.js';

const PACKAGES = fileURLToPath(new URL('../../packages', import.meta.url));
const SHIPPED = ['holdfast', 'testing', 'embedded', 'dashboard', 'nest'];

/** Types that are not looked into, because users write nothing of them. */
const SKIPPED = {
  'the shape of an object of another library': [
    ...['StandardSchema', 'Telemetry', 'PgliteLike', 'MetricsApi', 'PromClientRegistry'],
    ...['QueryRunnerLike', 'JetStreamLike', 'NatsHeadersLike', 'RedisLike', 'KafkaProducerLike'],
    ...['RabbitConnectionLike', 'RabbitPublisherLike', 'NatsConnectionLike', 'NatsAckLike'],
  ],
  'a row of a statement of ours: its view names the fields': [
    ...['ScheduleRow', 'AuditRow', 'ListedJob', 'ShownJob', 'DeadLetterGroupRow', 'WorkerRow'],
    'WorkerOverview',
  ],
  'what our own code reads of a definition or a worker': ['Hook', 'RetryDelay', 'Unique', 'Route'],
  'how our methods reach the database': ['Access'],
  'no names: sentences that the compiler shows, and conditions': [
    'Plain',
    'Teller',
    'Dropped',
    'Json',
  ],
};

/** Views: users read them. A field that is always there and never null may say by its name what it is. */
const VIEWS =
  /^(Job|JobFacts|JobSummary|JobOutcome|JobDefinition|DeadJob|HistoryEntry|Explanation|Reason|Setting|Tally|WorkerInfo|noStats|LimitView|Rate|Schedule|SchedulesPage|AuditEntry|AuditPage|QueueLoss|RanNow|MigrationState|Finding|Transition|\w+Event|\w+Gauges|\w+Jobs|UnreadQueue|MissingGrant|MetricDefinition|EnqueuedJob|TestDatabase|TestJobResult|FoundServer|EmbeddedServer|DashboardServer|Shown|Lab\w+|MadeJob|QueueInfo|(Unr|R)eadableQueue|(Queue)?Figures|WorkflowDefinition|Run(Step|Signal)|RunStep\.error|KeptError)\./;

/** Single names, by what they are. */
const EXEMPT = {
  'the part of a transaction of another library that an adapter calls': /^from[A-Z]\w+\./,
  'the rows and the id that a method returns':
    /^(Queryable\.query\.rows|HandlerContext\.enqueue\.id)$/,
  'a sentence that the compiler shows': /^Transaction\.totalCount$/,
  'the mark of a job of a batch that is settled': /^Settled\.settled$/,
  'the test kit reads it': /^Worker\.handlers\./,
  'stops what the call began': /^(meterMetrics|registerMetrics)\.close\(\)$/,
  'named in a condition of the compiler': /^(QueueName\.queues|ResultArgument)$/,
  'a list of words that another type names': /^(Level|Settle|Conflict)$|^UNIT_MS\./,
};

function entriesOf(name: string, condition: 'default' | 'require'): string[] {
  const folder = join(PACKAGES, name);
  const { exports } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  return Object.values(exports as Record<string, Record<string, { types: string }> | string>)
    .flatMap((entry) => (typeof entry === 'string' ? [] : (entry[condition]?.types ?? [])))
    .map((types) => join(folder, types));
}

const declarations = new Declarations(Object.values(SKIPPED).flat(), {
  holdfast: join(PACKAGES, 'holdfast/dist/types/index.d.ts'),
  '@holdfast/dashboard': join(PACKAGES, 'dashboard/dist/index.d.ts'),
});
const all = SHIPPED.flatMap((name) => entriesOf(name, 'default')).flatMap((entry) =>
  declarations.of(entry),
);
const names = new Map(all.map((one) => [`${one.file} ${one.name}`, one]));
const needed = [...names.values()].filter(
  ({ name, isPlain }) =>
    !(isPlain && VIEWS.test(name)) && !Object.values(EXEMPT).some((exempt) => exempt.test(name)),
);

test('every export, option and method that users type has a sentence', () => {
  const isSentence = (doc: string) => /^[^@\s]\S*( \S+)+[.:?]/.test(doc.replace(/\s+/g, ' '));
  const without = needed.filter(({ doc }) => !isSentence(doc));
  expect(without.map(({ name, file }) => `${name} (${file.slice(PACKAGES.length)})`)).toEqual([]);
  // It looks at what it is for.
  const seen = new Set(needed.map(({ name }) => name));
  for (const name of ['holdfast()', 'Holdfast.enqueue()', 'looking.explain()', 'JobOptions.retry'])
    expect(seen).toContain(name);
  for (const name of ['Worker.handle()', 'fromPg()', 'Config.handlers()', 'drain()', 'dashboard()'])
    expect(seen).toContain(name);
  // Also what a type inherits, by itself, through Omit and Pick, and from another package.
  for (const name of ['BatchJob.payload', 'ServeOptions.token', 'TrialOptions.headers'])
    expect(seen).toContain(name);
  for (const name of ['SurvivalOptions.partitionKey', 'Worker.workflow()', 'Holdfast.signal()'])
    expect(seen).toContain(name);
  for (const name of ['BatchJob.transaction()', 'ServeOptions.loopback', 'SurvivalOptions.attempt'])
    expect(seen).not.toContain(name);
  expect(needed.length).toBeGreaterThan(500);
});

test('nothing is exempt that is not there', () => {
  const found = [...names.values()].map(({ name }) => name);
  const idle = [VIEWS, ...Object.values(EXEMPT)].filter(
    (one) => !found.some((name) => one.test(name)),
  );
  expect(idle).toEqual([]);
  expect([...declarations.met].sort()).toEqual(Object.values(SKIPPED).flat().sort());
});

test('functions and the main option objects have an example', () => {
  const main =
    /^(Holdfast|Job|Worker|Enqueue|Queue|CreateQueue|Schedule|Limit|Retry|Unique|Outbox|Relay|HttpSink|NatsSink|RedisSink|RabbitSink|KafkaSink)Options$|^(Sink|Unavailable)$|^Outbox\.(create|publish|replay)\(\)$|^EnqueueCall$|^(job|holdfast|drain|outbox|relay|receive|headersOf|httpSink|natsSink|redisSink|rabbitSink|kafkaSink|testJob|makeJob|survivesFaults|startPglite|expectEnqueued|startEmbedded|dashboard|serveDashboard|nodeHandler|collectMetrics|defineConfig|workflow|Handle|HandleMany|InjectHoldfast)\(\)$|^(Workflow|Step|Try|Transaction|Wait|Children|Signal|Steps|HoldfastModule|HoldfastModuleAsync)Options$|^(Flow|StepAbout|UndoAbout|Taken|ChildResult|WorkflowBody|WorkflowDefinition|Signals|RunSteps|StepFailed|HoldfastModule)$|^Flow\.(step|transaction|sleep|until|wait|children|restart)\(\)$|^HoldfastModule\.(forRoot|forRootAsync)\(\)$|^Holdfast\.(enqueue|enqueueMany|worker|migrate|update|wait|retry|cancel|signal|steps)\(\)$|^Worker\.(handle|handleMany|workflow|run)\(\)$/;
  const examples = needed.filter(({ name }) => main.test(name));
  expect(examples.length).toBeGreaterThan(65);
  expect(examples.filter(({ doc }) => !doc.includes('@example')).map(({ name }) => name)).toEqual(
    [],
  );
});

/** Methods and functions that nobody calls by name, and those whose arguments say it all. */
const NO_EXAMPLE =
  /^(Holdfast|Worker|TestRun)\.(Symbol\.asyncDispose|id|stopping|handlers|addResident|addWaiting|then|movedMs)\(\)$|^Outbox\.holds\(\)$|^AppendsEvents\.append\(\)$|^hash32\(\)$|^\w+Definition\.\w+\(\)$/;

test('every function, and every method of what users call, has an example', () => {
  const called =
    /^(\w+|(looking|byId|queueSettings|schedules\.schedules|limits\.limits|deadLetters|archive|workflows|runs|endpoints|sending|Holdfast|Worker|HandlerContext|Batch(Job|Context)|Outbox|Relay|Receiver|Webhooks|EventLog|AppendsEvents|Projections|Flow|TestRun|\w+Definition)\.[\w.]+)\(\)$/;
  const all = needed.filter(({ name }) => called.test(name) && !NO_EXAMPLE.test(name));
  expect(all.length).toBeGreaterThan(120);
  expect(all.filter(({ doc }) => !doc.includes('@example')).map(({ name }) => name)).toEqual([]);
});

test('every option that may be left out says what is done then', () => {
  const options = needed.filter(
    ({ name, isOptional }) => isOptional && /(Options|Choice|Request|Call|Changes)\./.test(name),
  );
  expect(options.length).toBeGreaterThan(150);
  const silent = options.filter(({ doc }) => !/default|without|left out|null:/i.test(doc));
  expect(silent.map(({ name }) => name)).toEqual([]);
});

test('who requires a package gets the same sentences', () => {
  const entries = SHIPPED.flatMap((name) => entriesOf(name, 'require'));
  const bare = entries.flatMap((entry) =>
    [...readFileSync(entry, 'utf8').matchAll(/(.*)\nexport declare const (\w+)/g)]
      .filter(([, before]) => !before?.trim().endsWith('*/'))
      .map(([, , name]) => name),
  );
  expect(bare).toEqual([]);
  expect(entries.length).toBeGreaterThan(6);
  expect(readdirSync(join(PACKAGES, 'holdfast/dist/cjs'))).toContain('index.d.ts');
});
