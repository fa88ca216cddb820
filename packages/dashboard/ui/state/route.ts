/** Where the page is: the path below the dashboard's own, and the query. Links work as links do. */
import { computed, signal } from '@preact/signals';

const base = new URL(document.baseURI).pathname;

const read = () => ({
  path: location.pathname.startsWith(base) ? location.pathname.slice(base.length) : '',
  search: location.search,
});

const place = signal(read());
export const path = computed(() => place.value.path.replace(/\/$/, ''));
export const query = computed(() => new URLSearchParams(place.value.search));

addEventListener('popstate', () => {
  place.value = read();
});

export const href = (to: string) => base + to;

export function go(to: string, how: 'push' | 'replace' = 'push'): void {
  history[how === 'push' ? 'pushState' : 'replaceState'](null, '', href(to));
  const before = path.peek();
  place.value = read();
  if (how === 'replace' || path.peek() === before) return;
  scrollTo(0, 0);
  document.getElementById('main')?.focus({ preventScroll: true });
}

/** The list of jobs with this filter. */
export const jobsAt = (filter: Record<string, string>) => `jobs?${new URLSearchParams(filter)}`;

/** The same screen with other words in its query; an empty one is left out. */
export function withQuery(changes: Readonly<Record<string, string | null>>): string {
  const next = new URLSearchParams(query.peek());
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === '') next.delete(name);
    else next.set(name, value);
  }
  const text = next.toString();
  return text ? `${path.peek()}?${text}` : path.peek();
}
