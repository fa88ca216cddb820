/** `holdfast dashboard`: serves it until Ctrl-C or SIGTERM. The address goes to stdout, what it means to stderr. */
import type { Holdfast } from '../../../holdfast.js';
import { defined } from '../../../job/options/known-options.js';
import { VERSION } from '../../../job/options/version.js';
import { actor } from '../../actor.js';
import { type Call, EXIT } from '../../command.js';
import { Failure, UsageError } from '../../failures.js';
import { onEndOfNpx } from '../../npx.js';
import { holdfastOf } from '../../parse/config.js';
import { findPackage, importFound } from './load-package.js';

const PACKAGE = '@holdfast/dashboard';

interface Dashboard {
  serveDashboard(hf: Holdfast, options: object): Promise<{ url: string; close(): Promise<void> }>;
}

export async function run(call: Call): Promise<number> {
  const found = findPackage(PACKAGE);
  if (!found)
    throw new Failure(
      `The dashboard is a package of its own, and it is not installed; nothing was started. Run: npm install ${PACKAGE}@${VERSION}`,
    );
  // A command from elsewhere: global, or from the cache of npx.
  if (found.version !== VERSION)
    throw new Failure(
      `This command is holdfast ${VERSION}, and ${PACKAGE} is version ${found.version} here; nothing was started. ` +
        `Run the command in that version: npx holdfast@${found.version} dashboard`,
    );
  const dashboard = await importFound<Dashboard>(found);
  // The copy that the dashboard imports: what one copy makes another does not know.
  const { holdfast, HoldfastError } = await holdfastOf(found.path);
  const { given, session, out, signal } = call;
  const token = process.env.HOLDFAST_DASHBOARD_TOKEN || undefined;
  const write = given.flag('write');
  const hf = holdfast({ ...session.address, schema: session.schema });
  try {
    const options = defined({
      host: given.text('host'),
      port: portOf(given.text('port')),
      path: given.text('path'),
      hosts: given.texts('allow-host'),
      ...{ token, write, actor: actor() },
    });
    const serving = dashboard.serveDashboard(hf, options);
    const server = await serving.catch((error) => {
      throw error instanceof HoldfastError ? asUsage(error) : error;
    });
    await (out.json ? out.value({ url: server.url, write }) : out.line(server.url));
    out.note(`${write ? 'It may act' : 'It only looks; --write lets it act'}. Ctrl-C ends it.`);
    const code = await ended(signal);
    await server.close();
    return code;
  } finally {
    await hf.close();
  }
}

function portOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text);
  throw new UsageError(`--port must be 0 to 65535, not "${text}".`);
}

/** What was asked for cannot be done as it was asked. */
function asUsage({ message }: Error): UsageError {
  const token = / Pass token or authorise, or leave host out:/;
  return new UsageError(
    message.replace(token, ' Set HOLDFAST_DASHBOARD_TOKEN, or leave --host out:'),
  );
}

function ended(signal: AbortSignal): Promise<number> {
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(EXIT.interrupted));
    process.once('SIGTERM', () => resolve(EXIT.ok));
    onEndOfNpx(() => resolve(EXIT.ok));
  });
}
