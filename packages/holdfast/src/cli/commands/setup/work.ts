/**
 * `holdfast work`: a worker with the handlers of the configuration, until SIGTERM or Ctrl-C, which drain it.
 * It says nothing itself: the worker logs what it does.
 */
import { defined } from '../../../job/options/known-options.js';
import { namesPlace, serviceWords } from '../../../postgres/connect/address.js';
import type { Call } from '../../command.js';
import { UsageError } from '../../failures.js';
import { onEndOfNpx } from '../../npx.js';
import { findConfig, holdfastOf, loadConfig } from '../../parse/config.js';
import { countIfGiven } from '../../parse/values.js';
import { NO_DATABASE } from '../../session.js';

export async function run({ given }: Call): Promise<void> {
  const path = findConfig(given.text('config'));
  const config = await loadConfig(path);
  const url = given.text('url') ?? config.url ?? process.env.DATABASE_URL;
  const schema = given.text('schema') ?? config.schema ?? process.env.HOLDFAST_SCHEMA;
  if (!url && !namesPlace(process.env))
    throw new UsageError(
      `${NO_DATABASE} Or set \`url\` in the configuration.${serviceWords(process.env)}`,
    );
  const { holdfast } = await holdfastOf(path);
  const { listenUrl, logger } = config;
  const where = { connectionString: url || undefined, schema: schema || undefined };
  const hf = holdfast({ ...defined({ ...where, listenUrl, logger }), ...config.holdfast });
  const own = { queues: given.texts('queue'), concurrency: countIfGiven(given, 'concurrency') };
  const worker = hf.worker({ ...config.worker, ...defined(own) });
  await config.handlers(worker, hf);
  const forget = onEndOfNpx(() => void worker.stop());
  try {
    await worker.run();
  } finally {
    forget();
    await hf.close();
  }
}
