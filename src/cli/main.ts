#!/usr/bin/env node
/**
 * The `holdfast` command. Reads the arguments, finds the command, connects, and turns every error into
 * one line that says what is wrong and what to do, and an exit code.
 */
import { createRequire } from 'node:module';
import { parseArgs } from 'node:util';
import { holdfast } from '../holdfast.js';
import { HoldfastError } from '../job/errors.js';
import { type Command, EXIT, UsageError } from './command.js';
import { migrateCommand } from './migrate.js';
import { queuesCommand } from './queues.js';

const COMMANDS: Readonly<Record<string, Command>> = {
  migrate: migrateCommand,
  queues: queuesCommand,
};

const HELP = `Usage: holdfast COMMAND [options]

${Object.values(COMMANDS)
  .map(({ usage, summary }) => `  ${usage.padEnd(32)} ${summary}`)
  .join('\n')}

Options of every command:
  --url URL        the database; default: the environment variable DATABASE_URL
  --schema NAME    default: holdfast
  --help           this text
  --version        the version
`;

function nearest(word: string): string {
  const close = Object.keys(COMMANDS).find(
    (name) => name.startsWith(word.slice(0, 3)) || word.startsWith(name.slice(0, 3)),
  );
  return close ? ` Did you mean "${close}"?` : '';
}

function parse(argv: readonly string[]) {
  const [name] = argv.filter((word) => !word.startsWith('-'));
  const command = name === undefined ? undefined : COMMANDS[name];
  const own = Object.fromEntries(
    (command?.flags ?? []).map((flag) => [flag, { type: 'boolean' as const }]),
  );
  const { values, positionals } = parseArgs({
    args: [...argv],
    allowPositionals: true,
    options: {
      url: { type: 'string' },
      schema: { type: 'string' },
      help: { type: 'boolean', short: 'h' },
      version: { type: 'boolean' },
      ...own,
    },
  });
  return { values: values as Record<string, string | boolean | undefined>, positionals };
}

async function run(argv: readonly string[]): Promise<void> {
  const { values, positionals } = parse(argv);
  if (values.version) {
    const { version } = createRequire(import.meta.url)('../../package.json') as { version: string };
    process.stdout.write(`${version}\n`);
    return;
  }
  const [name, ...args] = positionals;
  if (values.help) {
    process.stdout.write(HELP);
    return;
  }
  if (name === undefined) throw new UsageError('No command was given.');
  const command = COMMANDS[name];
  if (!command) throw new UsageError(`There is no command "${name}".${nearest(name)}`);
  const hf = holdfast({
    ...(typeof values.url === 'string' && { connectionString: values.url }),
    ...(typeof values.schema === 'string' && { schema: values.schema }),
  });
  try {
    const flags = Object.fromEntries(command.flags.map((flag) => [flag, values[flag] === true]));
    await command.run({
      hf,
      args,
      flags,
      print: (line) => void process.stdout.write(`${line}\n`),
      note: (line) => void process.stderr.write(`${line}\n`),
    });
  } finally {
    await hf.close();
  }
}

function explain(error: unknown): { text: string; exit: number } {
  const code = (error as { code?: unknown } | null)?.code;
  const message = error instanceof Error ? error.message : String(error);
  if (
    error instanceof UsageError ||
    (typeof code === 'string' && code.startsWith('ERR_PARSE_ARGS'))
  ) {
    return { text: `${message}\nTry: holdfast --help`, exit: EXIT.usage };
  }
  if (error instanceof HoldfastError) {
    const usage = error.code === 'OPTION_INVALID' || error.code === 'NAME_INVALID';
    return { text: message, exit: usage ? EXIT.usage : EXIT.failed };
  }
  if (error instanceof AggregateError || /^(ECONN|ENOTFOUND|EHOST|ETIMEDOUT)/.test(String(code))) {
    return {
      text: `The database cannot be reached (${code ?? message}). Nothing was done: check --url or DATABASE_URL.`,
      exit: EXIT.failed,
    };
  }
  return { text: typeof code === 'string' ? `${message} (${code})` : message, exit: EXIT.failed };
}

// `holdfast migrate --sql | head` closes the pipe early; that is not an error of ours.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(EXIT.ok);
  throw error;
});

run(process.argv.slice(2)).catch((error: unknown) => {
  const { text, exit } = explain(error);
  process.stderr.write(`holdfast: ${text}\n`);
  process.exitCode = exit;
});
