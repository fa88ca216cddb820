#!/usr/bin/env node
/**
 * The `holdfast` command: reads the arguments, finds the command, opens the database that it needs, runs it,
 * and turns every error into one line that says what is wrong and what to do, and an exit code.
 */
import { createRequire } from 'node:module';
import { type Command, EXIT, nameOf, UsageError } from './command.js';
import { COMMANDS } from './commands.js';
import { ending } from './errors.js';
import { commandHelp, groupHelp, overallHelp } from './help.js';
import { onInterrupt } from './interrupt.js';
import { Output } from './output.js';
import { type Parsed, parse } from './parse.js';
import { Session } from './session.js';

function help({ command, words }: Parsed): string {
  if (command) return commandHelp(command);
  return words[0] ? groupHelp(words[0], COMMANDS) : overallHelp(COMMANDS);
}

async function main(argv: readonly string[]): Promise<number> {
  const parsed = parse(argv, COMMANDS);
  const { command, given, args } = parsed;
  const out = new Output(process, { json: given.flag('json') });
  if (given.flag('version')) {
    const { version } = createRequire(import.meta.url)('../../package.json') as { version: string };
    await out.line(version);
    return EXIT.ok;
  }
  if (given.flag('help') || !command) {
    process.stdout.write(help(parsed));
    return EXIT.ok;
  }
  if (!command.args && args.length > 0) {
    const what = `${nameOf(command)} takes no argument, but "${args[0]}" was given.`;
    throw new UsageError(what, command);
  }
  const session = sessionFor(command, parsed);
  const signal = onInterrupt(command.onInterrupt ?? 'quit');
  try {
    if (command.needs === 'schema') await session?.checkSchema();
    const run = await command.load();
    const exit = await run({ args, given, out, signal, session: session as Session });
    return typeof exit === 'number' ? exit : EXIT.ok;
  } catch (error) {
    return fail(error, command);
  } finally {
    await session?.close();
  }
}

function fail(error: unknown, command?: Command): number {
  const { text, exit } = ending(error, command);
  process.stderr.write(`holdfast: ${text}\n`);
  return exit;
}

function sessionFor(command: Command, { given }: Parsed): Session | null {
  if (command.needs === 'nothing') return null;
  return new Session(
    given.text('url') ?? process.env.DATABASE_URL,
    given.text('schema') ?? process.env.HOLDFAST_SCHEMA,
  );
}

// `holdfast jobs ls | head` closes the pipe early; that is not an error of ours.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(EXIT.ok);
  process.stderr.write(`holdfast: The output cannot be written (${error.code}).\n`);
  process.exit(EXIT.failed);
});
// Progress that nobody reads any more (`2>&1 | head`) does not end what is under way.
process.stderr.on('error', () => undefined);

main(process.argv.slice(2)).then(
  (exit) => {
    process.exitCode = exit;
  },
  (error: unknown) => {
    process.exitCode = fail(error);
  },
);
