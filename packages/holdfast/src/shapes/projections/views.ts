/** What programs see of projections, and what they may do to them. */
import type { ActOptions } from '../../operate/options.js';

/** A build of a projection, and how far behind it is. */
export interface ProjectionInfo {
  /** Its number. */
  readonly id: number;
  /** The projection's name. */
  readonly name: string;
  /** Of its code and tables. */
  readonly version: number;
  /** `building`: it catches up beside the live one. `old`: it was live, and goes on while workers have its code. */
  readonly state: 'building' | 'live' | 'old';
  /** The log that it reads. */
  readonly log: string;
  /** The schema of its tables; null: it makes none. */
  readonly schema: string | null;
  /** How many workers can share it. */
  readonly shards: number;
  /** About how many events it has not read; up to 100 in a shard they are counted. */
  readonly events: number;
  /** How long ago the oldest of those was written. */
  readonly lagMs: number;
  /** How many events it has read since it was begun. */
  readonly applied: number;
  /** How many keys have stopped at an event that it could not apply. */
  readonly stopped: number;
  /** How many events of these keys wait. */
  readonly parked: number;
  /** Its cursors were taken in another cluster of PostgreSQL: nobody works on it until `rebase`. */
  readonly refused: boolean;
  /** When it was begun. */
  readonly createdAt: Date;
  /** When it became live in place of another; null: it did not. */
  readonly promotedAt: Date | null;
}

/** A key that has stopped at an event which its projection could not apply. */
export interface StoppedKey {
  /** The build of the projection. */
  readonly id: number;
  /** The projection's name. */
  readonly name: string;
  /** The key. */
  readonly key: string;
  /** The event that could not be applied. */
  readonly eventId: string;
  /** Where it stands in the log. */
  readonly position: number;
  /** Its type. */
  readonly type: string;
  /** What was thrown. */
  readonly error: string;
  /** Since when. */
  readonly since: Date;
  /** How many events of the key wait, this one included. */
  readonly parked: number;
  /** Whether it was resumed, and nobody has got to it yet. */
  readonly resumed: boolean;
  /** Whether the event is to be passed over then. */
  readonly skipped: boolean;
}

/** What `resume()` takes. */
export interface ResumeOptions extends ActOptions {
  /** Default: all keys that have stopped. */
  readonly key?: string;
}

/** What acts on one build take. */
export interface BuildOptions extends ActOptions {
  /** Which build. Default: for `promote` the latest that is being built, for `remove` all that are not live. */
  readonly version?: number;
}

/** What `rebase()` takes. */
export interface RebaseOptions extends ActOptions {
  /** Build anew where it is not certain what was read. Default: refuse, and do nothing. */
  readonly rebuild?: boolean;
}

/** Looks at projections and acts on them, for programs; `holdfast projections` does the same. Acts leave a row in the audit. */
export interface Projections {
  /**
   * All builds, and how far behind each is.
   * @example const behind = (await projections(hf).list()).filter(({ lagMs }) => lagMs > 60_000);
   */
  list(name?: string): Promise<ProjectionInfo[]>;
  /**
   * Up to 1,000 keys that have stopped, the oldest first.
   * @example const [oldest] = await projections(hf).stops('order_totals');
   */
  stops(name?: string): Promise<StoppedKey[]>;
  /**
   * Applies what waits of a stopped key, in order, or of all of them. Do it once the cause is mended. Returns how many keys
   * were asked to go on.
   * @example await projections(hf).resume('order_totals', { key: 'order:9182' });
   */
  resume(name: string, options?: ResumeOptions): Promise<number>;
  /**
   * Passes over the event at which a key has stopped, and applies what waits behind it. The read model then lacks this
   * event. Returns how many builds had stopped at it.
   * @example
   * for (const { eventId } of await projections(hf).stops('order_totals'))
   *   await projections(hf).skip('order_totals', eventId, { reason: 'a test order' });
   */
  skip(name: string, eventId: string, options?: ActOptions): Promise<number>;
  /**
   * Builds it anew beside the live one, from the start of the log, with the same code. Returns the number of the build.
   * @example await projections(hf).rebuild('order_totals');
   */
  rebuild(name: string, options?: ActOptions): Promise<number>;
  /**
   * Makes a build the live one now. Without a version the latest that is being built.
   * @example await projections(hf).promote('order_totals', { version: 2 });
   */
  promote(name: string, options?: BuildOptions): Promise<number>;
  /**
   * Removes builds that are not live, with their tables. Without a version all of them. Returns how many.
   * @example await projections(hf).remove('order_totals', { version: 1 });
   */
  remove(name: string, options?: BuildOptions): Promise<number>;
  /**
   * After a dump was restored into another cluster, or pg_upgrade: carries the cursors of all projections of its log over by
   * position, where it is certain what was read. Stop the workers first.
   * @example await projections(hf).rebase('order_totals', { rebuild: true });
   */
  rebase(name: string, options?: RebaseOptions): Promise<void>;
}
