/** `holdfast dashboard`: serves it until Ctrl-C or SIGTERM. The address goes to stdout, what it means to stderr. */
import { serveDashboard } from '@@holdfast/dashboard';
import { holdfast } from '../../../holdfast.js';
import { HoldfastError } from '../../../job/errors/errors.js';
import { actor } from '../../actor.js';
import { type Call, EXIT, UsageError } from '../../command.js';
import { onEndOfNpx } from '../../npx.js';

export async function run(call: Call): Promise<number> {
  const { given, session, out, signal } = call;
  const token = process.env.HOLDFAST_DASHBOARD_TOKEN || undefined;
  const [host, path, hosts] = [given.text('host'), given.text('path'), given.texts('allow-host')];
  const write = given.flag('write');
  const hf = holdfast({ ...session.address, schema: session.schema });
  try {
    const server = await serveDashboard(hf, {
      ...(host !== undefined && { host }),
      ...portOf(given.text('port')),
      ...(path !== undefined && { path }),
      ...(token !== undefined && { token }),
      ...(hosts && { hosts }),
      ...{ write, actor: actor() },
    }).catch(asUsage);
    await (out.json ? out.value({ url: server.url, write }) : out.line(server.url));
    out.note(`${write ? 'It may act' : 'It only looks; --write lets it act'}. Ctrl-C ends it.`);
    const code = await ended(signal);
    await server.close();
    return code;
  } finally {
    await hf.close();
  }
}

function portOf(text: string | undefined): { port?: number } {
  if (text === undefined) return {};
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return { port: Number(text) };
  throw new UsageError(`--port must be 0 to 65535, not "${text}".`);
}

/** What was asked for cannot be done as it was asked. */
function asUsage(error: unknown): never {
  if (!(error instanceof HoldfastError)) throw error;
  const token = / Pass token or authorise, or leave host out:/;
  throw new UsageError(
    error.message.replace(token, ' Set HOLDFAST_DASHBOARD_TOKEN, or leave --host out:'),
  );
}

function ended(signal: AbortSignal): Promise<number> {
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(EXIT.interrupted));
    process.once('SIGTERM', () => resolve(EXIT.ok));
    onEndOfNpx(() => resolve(EXIT.ok));
  });
}
