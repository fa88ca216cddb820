/** Where the lab is: the journey, its seed, its course and its settings, all of them in the address. */
import { signal } from '@preact/signals';
import type { Settings } from './engine/frame.js';
import type { JourneyName } from './engine/lab.js';
import { ALL } from './journeys/specs.js';

export interface Place {
  readonly journey: JourneyName;
  readonly seed: number;
  /** Null: the first one. */
  readonly course: string | null;
  readonly settings: Settings;
}

function parsed(text: string): string | number | boolean {
  if (text === 'true' || text === 'false') return text === 'true';
  return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
}

function read(): Place {
  const { journey, seed, course, ...others } = Object.fromEntries(
    new URLSearchParams(location.search),
  );
  const number = Math.floor(Number(seed ?? 1));
  return {
    journey: ALL.find(({ name }) => name === journey)?.name ?? 'receipt',
    seed: Number.isSafeInteger(number) ? number : 1,
    course: course ?? null,
    settings: Object.fromEntries(
      Object.entries(others).map(([name, text]) => [name, parsed(text)]),
    ),
  };
}

export const place = signal(read());
addEventListener('popstate', () => {
  place.value = read();
});

export function addressOf({ journey, seed, course, settings }: Place): string {
  const query = new URLSearchParams({ journey, seed: String(seed), ...(course && { course }) });
  for (const [name, value] of Object.entries(settings)) query.set(name, String(value));
  return `${location.pathname}?${query}`;
}

export function goTo(next: Partial<Place>, how: 'push' | 'replace' = 'replace'): void {
  const to = { ...place.peek(), ...next };
  history[how === 'push' ? 'pushState' : 'replaceState'](null, '', addressOf(to));
  place.value = to;
}

/** Another journey, from its beginning. */
export const goToJourney = (journey: JourneyName) =>
  goTo({ journey, course: null, settings: {} }, 'push');
