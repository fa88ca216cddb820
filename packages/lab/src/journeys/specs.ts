/** The six journeys: what they are called, what they show, and how fast they play. */
import type { JourneyName } from '../engine/lab.js';

export interface Spec {
  readonly name: JourneyName;
  readonly short: string;
  readonly title: string;
  readonly intro: string;
  /** Between two frames, at speed 1. */
  readonly paceMs: number;
  /** Time passes by itself: there is always a next frame. */
  readonly live: boolean;
}

const spec = (
  name: JourneyName,
  short: string,
  title: string,
  intro: string,
  paceMs: number,
  live = false,
): Spec => ({ name, short, title, intro, paceMs, live });

export const SPECS: Readonly<Record<JourneyName, Spec>> = {
  receipt: spec(
    'receipt',
    'Receipt',
    'One worker, one receipt',
    'A row is written, claimed, and completed or retried. The row decides who may do what: each act below is one statement of Holdfast, and it says how many rows it moved.',
    1_500,
  ),
  crash: spec(
    'crash',
    'Crash',
    'Crash and dedupe',
    'A worker is killed in the middle of its work. The job comes back when its lease has run out; whether the mail goes out twice is for the handler’s guard to say.',
    1_800,
  ),
  ring: spec(
    'ring',
    'Ring',
    'The hash ring',
    'Which worker comes first for which key. Workers stand at many points of a circle; the first point clockwise from a key’s bucket owns it.',
    2_000,
  ),
  heartbeat: spec(
    'heartbeat',
    'Heartbeat',
    'Heartbeat timeline',
    'Three workers, and one of them is struck. Above, the article’s course: silence tells of a death. Below, Holdfast’s: a killed process also loses a lock. The same fleet ran twice, on Holdfast’s own worker.',
    250,
  ),
  timing: spec(
    'timing',
    'Timing',
    'Timing of heartbeat, TTL and lease',
    'What the times do to each other: computed for the worst moment, then played on Holdfast’s statements by two plain loops. Holdfast’s own worker refuses the settings that lose jobs, and says why.',
    700,
  ),
  fleet: spec(
    'fleet',
    'Many workers',
    'Many workers',
    'Holdfast’s own workers on a queue that is read by key, in virtual time. Add, kill, freeze and drain them, and watch that nothing is lost. Times are shorter than the defaults: heartbeat 2 s, TTL 6 s, lease 9 s.',
    250,
    true,
  ),
};

export const ALL: readonly Spec[] = Object.values(SPECS);
