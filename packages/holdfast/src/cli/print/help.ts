/** The help, made from the commands' own descriptions: of all, of a group, and of one. */
import { type Command, nameOf, type Options } from '../command.js';
import { COMMON } from '../parse/parse.js';

function columns(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`).join('\n');
}

function optionRows(options: Options): [string, string][] {
  return Object.entries(options).map(([name, { short, value, help }]) => [
    `${short ? `-${short}, ` : ''}--${name}${value ? ` ${value}` : ''}`,
    help,
  ]);
}

const usage = (command: Command) => [nameOf(command), command.args].filter(Boolean).join(' ');

export function overallHelp(commands: readonly Command[]): string {
  return `Usage: holdfast COMMAND [options]

${columns(commands.map((command) => [usage(command), command.summary]))}

Options of every command:
${columns(optionRows(COMMON))}

holdfast help COMMAND, or COMMAND --help, tells more of one command. Data goes to stdout, everything else to stderr.
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 unhealthy (doctor), 130 interrupted.
`;
}

export function groupHelp(word: string, commands: readonly Command[]): string {
  const group = commands.filter((command) => command.words[0] === word);
  return `Usage: holdfast ${word} ${group.map((command) => command.words[1]).join(' | ')}

${columns(group.map((command) => [usage(command), command.summary]))}

holdfast ${word} VERB --help tells more of one of them.
`;
}

export function commandHelp(command: Command): string {
  const own = command.options ? `\n${columns(optionRows(command.options))}\n` : '';
  const detail = command.detail ? `\n${command.detail}\n` : '';
  return `Usage: holdfast ${usage(command)}${command.options ? ' [options]' : ''}

${command.summary[0]?.toUpperCase()}${command.summary.slice(1)}.
${detail}${own}
Options of every command:
${columns(optionRows(COMMON))}
`;
}
