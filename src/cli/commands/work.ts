/** `holdfast work`: a worker with the handlers of the configuration, until SIGTERM or Ctrl-C, which drain it. */
import type { WorkerEvent, WorkerOptions } from '../../index.js';
import { type Call, UsageError } from '../command.js';
import { type Config, findConfig, holdfastOf, loadConfig } from '../config.js';
import { countOption } from '../filters.js';
import { Mishaps } from '../mishaps.js';

export async function run(call: Call): Promise<void> {
  const { given, out, args } = call;
  if (args.length > 0) throw new UsageError(`work takes no argument, but "${args[0]}" was given.`);
  const path = findConfig(given.text('config'));
  const config = await loadConfig(path);
  const url = given.text('url') ?? config.url ?? process.env.DATABASE_URL;
  const schema = given.text('schema') ?? config.schema ?? process.env.HOLDFAST_SCHEMA;
  if (!url) {
    throw new UsageError(
      'There is no database to connect to. Pass --url, set `url` in the configuration, or set DATABASE_URL.',
    );
  }
  const { holdfast } = await holdfastOf(path);
  const hf = holdfast({
    connectionString: url,
    ...(schema && { schema }),
    ...(config.listenUrl && { listenUrl: config.listenUrl }),
    ...(config.logger && { logger: config.logger }),
    ...config.holdfast,
  });
  const mishaps = new Mishaps((line) => out.note(line));
  const listen = (event: WorkerEvent) => {
    tell(out, event);
    mishaps.record(event);
  };
  const worker = hf.worker(optionsOf(call, config, listen));
  await config.handlers(worker, hf);
  try {
    await worker.run();
  } finally {
    await hf.close();
  }
}

function optionsOf(
  { given }: Call,
  { worker = {} }: Config,
  listen: (event: WorkerEvent) => void,
): WorkerOptions {
  const queues = given.texts('queue');
  return {
    ...worker,
    ...(queues && { queues }),
    ...(given.text('concurrency') !== undefined && {
      concurrency: countOption(given, 'concurrency', 10),
    }),
    onEvent(event) {
      listen(event);
      worker.onEvent?.(event);
    },
  };
}

/** What a person at the terminal wants to know; everything else is for the log. */
function tell(out: Call['out'], event: WorkerEvent): void {
  if (event.kind === 'started')
    out.note(`Worker ${event.workerId} is running; Ctrl-C drains and stops it.`);
  if (event.kind === 'reregistered')
    out.note(`Worker ${event.was} was declared dead; it goes on as ${event.workerId}.`);
  if (event.kind === 'stopped') out.note(`Worker ${event.workerId} has stopped.`);
}
