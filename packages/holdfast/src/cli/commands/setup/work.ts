/**
 * `holdfast work`: a worker with the handlers of the configuration, until SIGTERM or Ctrl-C, which drain it.
 * It says nothing itself: the worker logs what it does.
 */
import type { WorkerOptions } from '../../../index.js';
import { namesPlace } from '../../../postgres/connect/address.js';
import type { Call } from '../../command.js';
import { UsageError } from '../../failures.js';
import { onEndOfNpx } from '../../npx.js';
import { type Config, findConfig, holdfastOf, loadConfig } from '../../parse/config.js';
import { countOption } from '../../parse/filters.js';
import { NO_DATABASE } from '../../session.js';

export async function run(call: Call): Promise<void> {
  const { given, args } = call;
  if (args.length > 0) throw new UsageError(`work takes no argument, but "${args[0]}" was given.`);
  const path = findConfig(given.text('config'));
  const config = await loadConfig(path);
  const url = given.text('url') ?? config.url ?? process.env.DATABASE_URL;
  const schema = given.text('schema') ?? config.schema ?? process.env.HOLDFAST_SCHEMA;
  if (!url && !namesPlace(process.env))
    throw new UsageError(`${NO_DATABASE} Or set \`url\` in the configuration.`);
  const { holdfast } = await holdfastOf(path);
  const hf = holdfast({
    ...(url && { connectionString: url }),
    ...(schema && { schema }),
    ...(config.listenUrl && { listenUrl: config.listenUrl }),
    ...(config.logger && { logger: config.logger }),
    ...config.holdfast,
  });
  const worker = hf.worker(optionsOf(call, config));
  await config.handlers(worker, hf);
  const forget = onEndOfNpx(() => void worker.stop());
  try {
    await worker.run();
  } finally {
    forget();
    await hf.close();
  }
}

function optionsOf({ given }: Call, { worker = {} }: Config): WorkerOptions {
  const queues = given.texts('queue');
  return {
    ...worker,
    ...(queues && { queues }),
    ...(given.text('concurrency') !== undefined && {
      concurrency: countOption(given, 'concurrency', 10),
    }),
  };
}
