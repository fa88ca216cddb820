#!/usr/bin/env node
/** The `holdfast` command: the process in which one call runs. */
import { EXIT } from './command.js';
import { type OnInterrupt, runCommand } from './run.js';

// `holdfast jobs ls | head` closes the pipe early; that is not an error of ours.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(EXIT.ok);
  process.stderr.write(`holdfast: The output cannot be written (${error.code}).\n`);
  process.exit(EXIT.failed);
});
// Progress that nobody reads any more (`2>&1 | head`) does not end what is under way.
process.stderr.on('error', () => undefined);

/** A command that only reads ends at once; one that acts in steps after its step, or at a second Ctrl-C. */
const onInterrupt: OnInterrupt = (manner) => {
  const interrupted = new AbortController();
  if (manner === 'own') return interrupted.signal;
  process.on('SIGINT', () => {
    if (manner === 'quit' || interrupted.signal.aborted) process.exit(EXIT.interrupted);
    interrupted.abort();
  });
  return interrupted.signal;
};

void runCommand(process.argv.slice(2), process, onInterrupt).then((exit) => {
  process.exitCode = exit;
});
