/**
 * Writing what a turn did: each marker gets its place when it is written, and the body hears of it once it stands. A turn
 * that got on has all its attempts again.
 */
import type pg from 'pg';
import type { Marker, Unplaced } from '../marker.js';
import type { Journal } from './journal.js';
import type { TurnOf, TurnPorts } from './ports.js';

export const NONE = { remaining: null, dueInMs: null, error: null } as const;

/** From so many on, reading them in each turn takes a noticeable time. */
const MANY = 10_000;

export class Recorder {
  /** Of turns without progress. */
  attempt: number;
  /** It has spent attempts or vanished with its workers since it last got on. */
  #isMarked: boolean;
  readonly #of: TurnOf;
  readonly #ports: TurnPorts;
  readonly #journal: Journal;
  readonly #hear: () => void;

  constructor(of: TurnOf, ports: TurnPorts, journal: Journal, hear: () => void) {
    this.attempt = of.attempt;
    this.#isMarked = of.attempt > 1 || of.crashes > 0;
    this.#of = of;
    this.#ports = ports;
    this.#journal = journal;
    this.#hear = hear;
  }

  async record(marker: Unplaced, isIntent = false): Promise<void> {
    const journal = this.#journal;
    const place = isIntent ? null : journal.takePlace();
    try {
      const undoAsked = await this.#ports.record({ ...marker, place, ...journal.about(marker) });
      journal.askToUndo(undoAsked);
      await this.#recorded({ ...NONE, ...marker, place });
    } finally {
      if (place !== null) journal.leavePlace(place);
    }
  }

  async #recorded(marker: Marker): Promise<void> {
    if (this.#isMarked) {
      // The marker stands. If this fails, the next one tries it again.
      const noted = this.#ports.progress();
      await noted.then(
        () => {
          this.attempt = 1;
          this.#isMarked = false;
        },
        () => undefined,
      );
    }
    this.#journal.add(marker);
    if (marker.place === MANY)
      this.#of.log.warn({ steps: MANY }, 'a run has many steps, and each turn reads them all');
    this.#hear();
  }

  async transact(
    marker: Pick<Marker, 'name' | 'kind' | 'nth' | 'attempt'>,
    work: (tx: pg.PoolClient) => Promise<string | null>,
  ): Promise<void> {
    const journal = this.#journal;
    const taken: number[] = [];
    try {
      const written = { ...marker, error: null, ...journal.about(marker) };
      const stands = await this.#ports.transact(written, async (tx) => {
        const value = await work(tx);
        // Only now: what ends meanwhile is not held up.
        const place = journal.takePlace();
        taken.push(place);
        return { value, place };
      });
      const { value, place, undoAsked } = stands;
      journal.askToUndo(undoAsked);
      await this.#recorded({ ...NONE, ...marker, place, value });
    } finally {
      for (const place of taken) journal.leavePlace(place);
    }
  }
}
