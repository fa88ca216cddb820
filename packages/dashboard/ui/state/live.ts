/**
 * The feed: one stream of events, closed while nobody sees the page and opened again with the id of the last event. `fresh`
 * says how old the picture is, in words.
 */
import { computed, signal } from '@preact/signals';
import type { Sample } from '../../src/read/snapshot.js';
import { href } from './route';
import type { LiveSnapshot, Session } from './wire';

const KEPT = 300;
const STALE_MS = 7_000;

export const session = signal<Session | null>(null);
/** Whether this user may act. */
export const write = computed(() => session.value?.write === true);
export const snapshot = signal<LiveSnapshot | null>(null);
export const samples = signal<readonly Sample[]>([]);
/** How far back the lanes of heartbeats go. */
export const LANE_MS = 60_000;
/** By worker, when its heartbeats came, as far as this page has seen them. */
export const beats = signal<ReadonlyMap<string, readonly number[]>>(new Map());
/** Counts the polls. */
export const tick = signal(0);
/** Counts acts, so that screens look again. */
export const acted = signal(0);
const down = signal<string | null>(null);
const receivedAt = signal(0);
const now = signal(Date.now());
const hidden = signal(document.hidden);
/** Of the database's clock against ours. */
let offsetMs = 0;

export const serverNow = () => now.value + offsetMs;

export type Freshness = 'live' | 'late' | 'down' | 'paused' | 'opening';
export const freshness = computed<{ state: Freshness; text: string }>(() => {
  if (hidden.value) return { state: 'paused', text: 'Paused' };
  if (down.value) return { state: 'down', text: down.value };
  if (receivedAt.value === 0) return { state: 'opening', text: 'Connecting' };
  const age = Math.max(0, now.value - receivedAt.value);
  if (age < STALE_MS) return { state: 'live', text: 'Live' };
  return { state: 'late', text: `${Math.round(age / 1000)} s old` };
});

let source: EventSource | null = null;
let lastId = '';

function beatsOf({ at, workers }: LiveSnapshot): ReadonlyMap<string, readonly number[]> {
  return new Map(
    workers.map(({ id, lastSeenAt }) => {
      const last = Date.parse(lastSeenAt);
      const before = (beats.peek().get(id) ?? []).filter((one) => one > at - LANE_MS && one < last);
      return [id, [...before, last]];
    }),
  );
}

function receive(message: MessageEvent<string>): void {
  const data = JSON.parse(message.data) as {
    snapshot: LiveSnapshot;
    now: number;
    samples: Sample[];
    reset: boolean;
  };
  lastId = message.lastEventId;
  offsetMs = data.now - Date.now();
  samples.value = [...(data.reset ? [] : samples.value), ...data.samples].slice(-KEPT);
  snapshot.value = data.snapshot;
  beats.value = beatsOf(data.snapshot);
  receivedAt.value = Date.now();
  now.value = Date.now();
  down.value = null;
  tick.value += 1;
}

function open(): void {
  if (source) return;
  // A new EventSource does not know the last event of the old one.
  source = new EventSource(
    href(lastId ? `api/events?last=${encodeURIComponent(lastId)}` : 'api/events'),
  );
  source.addEventListener('snapshot', receive);
  source.addEventListener('down', (message: MessageEvent<string>) => {
    down.value = (JSON.parse(message.data) as { error: string }).error;
  });
  source.onerror = () => {
    if (source?.readyState !== EventSource.CLOSED) return;
    close();
    setTimeout(() => document.hidden || open(), 5_000);
    // The session may be over: the page that comes then has the form.
    fetch(href('api/session')).then(
      ({ status }) => status === 401 && location.reload(),
      () => undefined,
    );
  };
}

function close(): void {
  source?.close();
  source = null;
}

export function startLive(): void {
  const turn = () => {
    hidden.value = document.hidden;
    if (document.hidden) close();
    else open();
  };
  document.addEventListener('visibilitychange', turn);
  setInterval(() => {
    if (!document.hidden) now.value = Date.now();
  }, 1_000);
  turn();
}
