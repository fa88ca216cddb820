/**
 * One call of the `holdfast` command. Every error becomes one line that says what is wrong and what to do, and an exit
 * code. The process is touched through `streams` only; see main.ts.
 */
import { VERSION } from '../job/options/version.js';
import { type Command, EXIT, nameOf } from './command.js';
import { COMMANDS } from './commands.js';
import { ending } from './errors.js';
import { UsageError } from './failures.js';
import { missingGrantFix } from './grants.js';
import { type Parsed, parse } from './parse/parse.js';
import { commandHelp, groupHelp, overallHelp } from './print/help.js';
import { Output, type Streams } from './print/output.js';
import { Session } from './session.js';

/** How Ctrl-C reaches a command: see main.ts. */
export type OnInterrupt = (manner: 'quit' | 'finish' | 'own') => AbortSignal;

/** Returns the exit code. */
export async function runCommand(
  argv: readonly string[],
  streams: Streams,
  onInterrupt: OnInterrupt,
): Promise<number> {
  try {
    return await call(parse(argv, COMMANDS), streams, onInterrupt);
  } catch (error) {
    return fail(error, streams);
  }
}

async function call(parsed: Parsed, streams: Streams, onInterrupt: OnInterrupt): Promise<number> {
  const { command, given, args } = parsed;
  const out = new Output(streams, { json: given.flag('json') });
  if (given.flag('version')) {
    await out.line(VERSION);
    return EXIT.ok;
  }
  if (given.flag('help') || !command) {
    streams.stdout.write(help(parsed));
    return EXIT.ok;
  }
  checkCount(command, args);
  const { env } = streams;
  const url = given.text('url') ?? env.DATABASE_URL;
  const schema = given.text('schema') ?? env.HOLDFAST_SCHEMA;
  const session = command.needs === 'nothing' ? null : new Session(url, schema, env);
  const signal = onInterrupt(command.onInterrupt ?? 'quit');
  try {
    if (command.needs === 'schema') await session?.checkSchema();
    const run = await command.load();
    const exit = await run({ args, given, out, signal, session: session as Session });
    return typeof exit === 'number' ? exit : EXIT.ok;
  } catch (error) {
    return fail(error, streams, command, await missingGrantFix(error, session, command));
  } finally {
    await session?.close();
  }
}

/** Of those that take none or one. A command that takes several checks them itself. */
function checkCount(command: Command, args: readonly string[]): void {
  const { words, args: usage = '' } = command;
  if (/^$|^\[--/.test(usage) && args.length > 0)
    throw new UsageError(
      `${nameOf(command)} takes no argument, but "${args[0]}" was given.`,
      words,
    );
  const wrong = /^\w+$/.test(usage) ? args.length !== 1 || !args[0] : args.length > 1;
  if (/^\[?\w+\]?$/.test(usage) && wrong)
    throw new UsageError(`Write: holdfast ${nameOf(command)} ${usage}`, words);
}

function fail(error: unknown, { stderr }: Streams, command?: Command, fix?: string): number {
  const { text, exit } = ending(error, command, fix);
  stderr.write(`holdfast: ${text}\n`);
  return exit;
}

function help({ command, words }: Parsed): string {
  if (command) return commandHelp(command);
  return words[0] ? groupHelp(words[0], COMMANDS) : overallHelp(COMMANDS);
}
