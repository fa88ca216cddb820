/**
 * The player: frames that were made, the one that is shown, and how the next one comes about. What was made can be
 * looked at again in any order; at its end the course's next act is done, or time passes. An act of a person happens at
 * the end, whatever is shown.
 */
import { batch, computed, signal } from '@preact/signals';
import { COURSES, type Course } from './courses.js';
import type { Act, Frame } from './engine/frame.js';
import { ask } from './engine-client.js';
import { specOf } from './journeys/specs.js';
import { place } from './place.js';

/** Of a fleet that runs on and on, so much is kept. */
const MOST_FRAMES = 2_000;
const TICK_MS = 250;

export const frames = signal<readonly Frame[]>([]);
/** The journey that the frames are of. */
export const opened = signal<string | null>(null);
export const at = signal(0);
export const playing = signal(false);
export const speed = signal(1);
export const busy = signal(false);
export const error = signal<string | null>(null);
/** What is left of the course; null: somebody has acted, and it is over. */
const left = signal<readonly Act[] | null>(null);

export const frame = computed(() => frames.value[at.value] ?? null);
export const before = computed(() => frames.value[at.value - 1] ?? null);
export const atEnd = computed(() => at.value >= frames.value.length - 1);
/** What a person does happens after this one, so it says what fits. */
export const last = computed(() => frames.value.at(-1) ?? null);
const spec = computed(() => specOf(place.value.journey));
/** Time passes by itself while it plays. */
export const isLive = computed(() => spec.value.live === true);
export const canStep = computed(
  () =>
    frames.value.length > 0 && (!atEnd.value || (left.value?.length ?? 0) > 0 || spec.value.live),
);

export const courses = computed((): readonly Course[] => COURSES[place.value.journey] ?? []);
export const course = computed(
  () => courses.value.find(({ id }) => id === place.value.course) ?? courses.value[0] ?? null,
);

/** Counts openings: what an earlier one still brings is not for this one. */
let opening = 0;

/** What was asked of the engine last. */
let making: Promise<unknown> = Promise.resolve();
/** Counts how often a person moved to another frame. */
let moves = 0;

function made(call: () => Promise<readonly Frame[]>): Promise<boolean> {
  const done = make(call);
  making = done;
  return done;
}

async function make(call: () => Promise<readonly Frame[]>): Promise<boolean> {
  const mine = opening;
  busy.value = true;
  try {
    const more = await call();
    if (mine !== opening) return false;
    const all = [...frames.peek(), ...more];
    const gone = Math.max(0, all.length - MOST_FRAMES);
    frames.value = all.slice(gone);
    at.value = Math.max(0, at.peek() - gone);
    return true;
  } catch (failed) {
    if (mine === opening) error.value = (failed as Error).message;
    return false;
  } finally {
    if (mine === opening) busy.value = false;
  }
}

/** From the beginning, as the address says. */
export async function open(): Promise<void> {
  opening++;
  pause();
  const { journey: name, seed, settings } = place.peek();
  batch(() => {
    frames.value = [];
    at.value = 0;
    error.value = null;
    opened.value = name;
  });
  const chosen = course.peek();
  left.value = chosen?.acts ?? null;
  await made(() =>
    ask({ call: 'open', name, seed, settings: { ...chosen?.settings, ...settings } }),
  );
}

const toEnd = () => {
  moves++;
  at.value = Math.max(0, frames.peek().length - 1);
};

/** What a person does. The course ends with it. */
export async function act(what: Act): Promise<void> {
  left.value = null;
  toEnd();
  if (await made(() => ask({ call: 'act', act: what }))) toEnd();
}

/** The next frame: one that was made, or a new one. False: there is none. */
export async function step(): Promise<boolean> {
  if (!atEnd.peek()) {
    at.value += 1;
    return true;
  }
  if (!canStep.peek()) return false;
  if (busy.peek()) {
    // What somebody has just done comes first.
    await making;
    return canStep.peek();
  }
  const [first, before] = [at.peek(), moves];
  const [next, ...others] = left.peek() ?? [];
  const passes = spec.peek().live && (!next || next.do === 'wait');
  if (passes) {
    const ms = Math.min(TICK_MS, Number(next?.ms ?? TICK_MS));
    const rest = Number(next?.ms ?? 0) - ms;
    if (next) left.value = rest > 0 ? [{ ...next, ms: rest }, ...others] : others;
    if (!(await made(() => ask({ call: 'advance', ms })))) return false;
  } else if (next) {
    left.value = others;
    if (!(await made(() => ask({ call: 'act', act: next })))) return false;
  } else return false;
  // Unless somebody looks at another one by now.
  if (before === moves) at.value = Math.min(first + 1, frames.peek().length - 1);
  return true;
}

export function back(): void {
  pause();
  moves++;
  at.value = Math.max(0, at.peek() - 1);
}

export function show(which: number): void {
  pause();
  moves++;
  at.value = Math.min(Math.max(0, which), frames.peek().length - 1);
}

let plays = 0;
export function pause(): void {
  plays++;
  playing.value = false;
}

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

export async function play(): Promise<void> {
  const mine = ++plays;
  playing.value = true;
  while (mine === plays) {
    const began = performance.now();
    const moved = await step();
    if (mine !== plays) return;
    if (!moved) return pause();
    await wait(Math.max(0, spec.peek().paceMs / speed.peek() - (performance.now() - began)));
  }
}

export const toggle = () => (playing.peek() ? pause() : void play());
