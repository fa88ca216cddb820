/** The seven journeys: what they are called, what they show, and how fast they play. */
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

export const ALL: readonly Spec[] = [
  {
    ...{
      name: 'receipt',
      short: 'Receipt',
      title: 'One worker, one receipt',
      paceMs: 1_500,
      live: false,
    },
    intro:
      'A row is written, claimed, and completed or retried. The row decides who may do what: each act below is one statement of Holdfast, and it says how many rows it moved.',
  },
  {
    ...{ name: 'crash', short: 'Crash', title: 'Crash and dedupe', paceMs: 1_800, live: false },
    intro:
      'A worker is killed in the middle of its work. The job comes back when its lease has run out; whether the mail goes out twice is for the handler’s guard to say.',
  },
  {
    ...{ name: 'ring', short: 'Ring', title: 'The hash ring', paceMs: 2_000, live: false },
    intro:
      'Which worker comes first for which key. Workers stand at many points of a circle; the first point clockwise from a key’s bucket owns it.',
  },
  {
    ...{
      name: 'heartbeat',
      short: 'Heartbeat',
      title: 'Heartbeat timeline',
      paceMs: 250,
      live: false,
    },
    intro:
      'Three workers, and one of them is struck. Above, the article’s course: silence tells of a death. Below, Holdfast’s: a killed process also loses a lock. The same fleet ran twice, on Holdfast’s own worker.',
  },
  {
    ...{
      name: 'timing',
      short: 'Timing',
      title: 'Timing of heartbeat, TTL and lease',
      paceMs: 700,
      live: false,
    },
    intro:
      'What the times do to each other: computed for the worst moment, then played on Holdfast’s statements by two plain loops. Holdfast’s own worker refuses the settings that lose jobs, and says why.',
  },
  {
    ...{ name: 'fleet', short: 'Many workers', title: 'Many workers', paceMs: 250, live: true },
    intro:
      'Holdfast’s own workers on a queue that is read by key, in virtual time. Add, kill, freeze and drain them, and watch that nothing is lost. Times are shorter than the defaults: heartbeat 2 s, TTL 6 s, lease 9 s.',
  },
  {
    ...{
      name: 'checkout',
      short: 'Workflow',
      title: 'A checkout that crashes everywhere',
      paceMs: 1_200,
      live: false,
    },
    intro:
      'A checkout is a workflow: charge, reserve, print, approval, ship, receipt. Its worker is killed before each of its statements and after each, with a new checkout every time. The other worker goes on, and nothing happens twice.',
  },
];

export const specOf = (journey: JourneyName) => ALL.find(({ name }) => name === journey) as Spec;
