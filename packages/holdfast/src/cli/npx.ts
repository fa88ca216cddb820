/** SIGTERM to `npx` goes to a shell, and some (dash, the sh of Debian) end without passing it on: we see our parent gone. */
const LOOK_MS = 100;

/** Calls `stop` when we were started by npx and it has been asked to end. Returns how to look no longer. */
export function onEndOfNpx(stop: () => void): () => void {
  const parent = process.ppid;
  if (process.env.npm_command !== 'exec') return () => undefined;
  const look = () => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    stop();
  };
  const timer = setInterval(look, LOOK_MS).unref();
  return () => clearInterval(timer);
}
