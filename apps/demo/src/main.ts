/**
 * `npm start`: reads the arguments, runs the demo, and ends with its exit code. 0: the proof
 * holds; 1: it does not, or the demo could not go on; 2: wrong usage; 130: interrupted twice.
 */
import { runDemo } from './demo.js';
import { Screen } from './screen.js';
import { readArguments, USAGE, UsageError } from './usage.js';

async function main(): Promise<number> {
  const options = readArguments(process.argv.slice(2));
  if (options.help) {
    process.stdout.write(USAGE);
    return 0;
  }
  return runDemo(options, new Screen(process.stdout, process.env));
}

main().then(
  (code) => process.exit(code),
  (error: unknown) => {
    const { message, code } = error as { message?: string; code?: string };
    const usage = error instanceof UsageError;
    process.stderr.write(
      usage ? `${message}\n\n${USAGE}` : `\nThe demo cannot go on: ${message || code}\n`,
    );
    process.exit(usage ? 2 : 1);
  },
);
