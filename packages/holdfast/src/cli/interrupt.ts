/**
 * Ctrl-C. A command that only reads ends at once. One that acts in steps sees the signal and ends
 * after its step; a second Ctrl-C ends it now. Some commands have rules of their own.
 */
import { EXIT } from './command.js';

export function onInterrupt(manner: 'quit' | 'finish' | 'own'): AbortSignal {
  const interrupted = new AbortController();
  if (manner === 'own') return interrupted.signal;
  process.on('SIGINT', () => {
    if (manner === 'quit' || interrupted.signal.aborted) process.exit(EXIT.interrupted);
    interrupted.abort();
  });
  return interrupted.signal;
}
