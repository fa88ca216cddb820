/**
 * From words on the command line to a command and its options. The parser itself is Node's; here are the
 * lookup of commands of one or two words, and messages that say what was probably meant.
 */
import { type ParseArgsConfig, parseArgs } from 'node:util';
import { nearest } from '../../job/options/nearest.js';
import { type Command, Given, nameOf, type Options } from '../command.js';
import { UsageError } from '../failures.js';

export const COMMON: Options = {
  url: {
    type: 'string',
    value: 'URL',
    help: 'the database; default: DATABASE_URL, or PGHOST, PGUSER, PGDATABASE, …',
  },
  schema: { type: 'string', value: 'NAME', help: 'default: HOLDFAST_SCHEMA, or holdfast' },
  json: { type: 'boolean', help: 'for programs: one JSON value a line' },
  help: { type: 'boolean', short: 'h', help: 'how the command is used' },
  version: { type: 'boolean', help: 'the version of holdfast' },
};

export interface Parsed {
  /** Null: help or the version was asked for without a whole command. */
  readonly command: Command | null;
  /** The words that were given, of a command or of a group such as `jobs`. */
  readonly words: readonly string[];
  readonly args: readonly string[];
  readonly given: Given;
}

/** Where the command stands: behind options of every command, if any, and before its own. */
function commandAt(argv: readonly string[]): { from: number; words: string[] } {
  let from = 0;
  while (argv[from]?.startsWith('-')) {
    const option = COMMON[(argv[from] as string).replace(/^--/, '')];
    from += option?.type === 'string' ? 2 : 1;
  }
  const rest = argv.slice(from);
  const end = rest.findIndex((word) => word.startsWith('-'));
  return { from, words: rest.slice(0, end < 0 ? rest.length : end) };
}

function find(words: readonly string[], commands: readonly Command[]): Command | null {
  const fits = commands.filter((command) => command.words.every((word, n) => word === words[n]));
  return fits.sort((a, b) => b.words.length - a.words.length)[0] ?? null;
}

export function parse(argv: readonly string[], commands: readonly Command[]): Parsed {
  const { from, words } = commandAt(argv);
  // `help jobs ls` is `jobs ls --help`.
  if (words[0] === 'help')
    return parse([...argv.slice(0, from), ...argv.slice(from + 1), '--help'], commands);
  const command = find(words, commands);
  const options: Options = { ...COMMON, ...command?.options };
  const rest = joined(
    [...argv.slice(0, from), ...argv.slice(from + (command?.words ?? words).length)],
    options,
  );
  // Words that name no command are at fault before any option is.
  const unknown = !command && words.length > 0 ? unknownCommand(words, commands) : null;
  const given = new Given(values(rest, options, command, unknown));
  const help = given.flag('help') || given.flag('version');
  if (!command && !help) throw unknownCommand(words, commands);
  if (unknown && !isGroup(words[0] as string, commands)) throw unknown;
  return { command, words, args: positionals(rest, options), given };
}

/** `--limit -1` as `--limit=-1`: Node takes the number for an option, and the check of the option says what is wrong. */
function joined(args: readonly string[], options: Options): string[] {
  const all: string[] = [];
  for (const word of args) {
    const before = all.at(-1) ?? '';
    const takes = before.startsWith('--') && options[before.slice(2)]?.type === 'string';
    if (takes && /^-\d/.test(word) && !all.includes('--')) all.splice(-1, 1, `${before}=${word}`);
    else all.push(word);
  }
  return all;
}

const isGroup = (word: string, commands: readonly Command[]) =>
  commands.some((command) => command.words[0] === word);

function config(args: readonly string[], options: Options): ParseArgsConfig {
  const own = Object.entries(options).map(([name, { type, short, multiple }]) => [
    name,
    { type, ...(short && { short }), ...(multiple && { multiple }) },
  ]);
  return { args: [...args], options: Object.fromEntries(own), allowPositionals: true };
}

function values(
  args: readonly string[],
  options: Options,
  command: Command | null,
  unknown: UsageError | null,
) {
  try {
    return parseArgs(config(args, options)).values;
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    if (!code?.startsWith('ERR_PARSE_ARGS')) throw error;
    if (unknown) throw unknown;
    const word = /'(?:-\w, )?(--?[^ ']*)/.exec(message)?.[1] ?? '';
    if (code !== 'ERR_PARSE_ARGS_UNKNOWN_OPTION') {
      const none = /does not take an argument/.test(message);
      throw new UsageError(`${word} ${none ? 'takes no value' : 'needs a value'}.`, command?.words);
    }
    const what = command ? `holdfast ${nameOf(command)}` : 'holdfast';
    const known = Object.keys(options).map((name) => `--${name}`);
    throw new UsageError(`${what} has no option ${word}.${nearest(word, known)}`, command?.words);
  }
}

const positionals = (args: readonly string[], options: Options) =>
  parseArgs(config(args, options)).positionals;

function unknownCommand(words: readonly string[], commands: readonly Command[]): UsageError {
  const [first, second] = words;
  if (first === undefined) {
    return new UsageError('No command was given.');
  }
  const group = commands.filter((command) => command.words[0] === first);
  if (group.length === 0) {
    const names = [...new Set(commands.map((command) => command.words[0] as string)), 'help'];
    const verb = commands.find(({ words: [, own] }) => own === first);
    const meant = verb ? ` Did you mean "${nameOf(verb)}"?` : nearest(first, names);
    return new UsageError(`There is no command "${first}".${meant}`);
  }
  const verbs = group.map((command) => command.words[1] as string);
  const list = verbs.join(', ');
  if (second === undefined) return new UsageError(`Say what to do with ${first}: ${list}.`);
  return new UsageError(
    `There is no command "${first} ${second}".${nearest(second, verbs)} Known: ${list}.`,
  );
}
