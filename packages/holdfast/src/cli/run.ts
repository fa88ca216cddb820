/**
 * One call of the `holdfast` command: reads the arguments, finds the command, opens the database that it needs,
 * runs it, and turns every error into one line that says what is wrong and what to do, and an exit code. It touches
 * no process but through `streams`; see main.ts.
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

/** How Ctrl-C reaches a command: see interrupt.ts. */
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
  if (!command.args && args.length > 0) {
    const what = `${nameOf(command)} takes no argument, but "${args[0]}" was given.`;
    throw new UsageError(what, command.words);
  }
  const session = sessionFor(command, parsed, streams);
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

function fail(error: unknown, { stderr }: Streams, command?: Command, fix?: string): number {
  const { text, exit } = ending(error, command, fix);
  stderr.write(`holdfast: ${text}\n`);
  return exit;
}

function help({ command, words }: Parsed): string {
  if (command) return commandHelp(command);
  return words[0] ? groupHelp(words[0], COMMANDS) : overallHelp(COMMANDS);
}

function sessionFor(command: Command, { given }: Parsed, { env }: Streams): Session | null {
  if (command.needs === 'nothing') return null;
  return new Session(
    given.text('url') ?? env.DATABASE_URL,
    given.text('schema') ?? env.HOLDFAST_SCHEMA,
    env,
  );
}
