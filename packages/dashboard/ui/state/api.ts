/** Questions and acts. What the server refuses becomes an error with its sentence. */
import { useEffect, useState } from 'preact/hooks';
import { acted, tick } from './live';
import { href } from './route';

async function call(path: string, options: RequestInit = {}): Promise<unknown> {
  let response: Response;
  try {
    response = await fetch(href(path), { ...options, credentials: 'same-origin' });
  } catch {
    throw new Error('The dashboard’s server does not answer.');
  }
  // The session is over: the page that comes has the form.
  if (response.status === 401) location.reload();
  const value = (await response.json().catch(() => ({}))) as { error?: string };
  if (response.ok) return value;
  throw new Error(value.error ?? `The server answered ${response.status}.`);
}

export const get = <Value>(path: string): Promise<Value> => call(path) as Promise<Value>;

export const post = <Value>(path: string, body: object): Promise<Value> =>
  call(path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-holdfast': '1' },
    body: JSON.stringify(body),
  }) as Promise<Value>;

export interface Asked<Value> {
  readonly data: Value | null;
  readonly error: string | null;
  /** When the data was asked for, by `performance.now()`. */
  readonly askedAt: number;
  readonly reload: () => void;
}

/** Asks at once, if there is a path, and then every `often` polls of the feed while the page is seen; 0: only after an act or `reload`. */
export function useAsked<Value>(
  path: string,
  often: number | ((data: Value | null) => number) = 2,
): Asked<Value> {
  const none = { path, data: null as Value | null, error: null as string | null, askedAt: 0 };
  const [state, setState] = useState(none);
  const [asked, setAsked] = useState(0);
  const fresh = state.path === path;
  const every = typeof often === 'number' ? often : often(fresh ? state.data : null);
  const round = every > 0 ? Math.floor(tick.value / every) : 0;
  const acts = acted.value;
  useEffect(() => {
    if (!path) return;
    let current = true;
    const askedAt = performance.now();
    get<Value>(path).then(
      (data) => current && setState({ path, data, error: null, askedAt }),
      (error: Error) =>
        current &&
        setState((old) => ({ ...(old.path === path ? old : none), error: error.message })),
    );
    return () => {
      current = false;
    };
  }, [path, asked, round, acts]);
  return { ...(fresh ? state : none), reload: () => setAsked((count) => count + 1) };
}
