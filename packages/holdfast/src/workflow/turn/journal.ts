/**
 * What a turn knows of the markers of its run: those that have ended, which the body hears of in the order of their places,
 * and the open ones. The body hears of none whose predecessor is still being written.
 */

import type { UndoReason } from '../errors.js';
import { type Marker, ROUND, UNDOING, undoOf } from '../marker.js';
import type { History } from '../rows/record.js';

export class Journal {
  /** No marker of the run stands yet. */
  isEmpty = true;
  /** The last place of what has ended. */
  known = 0;
  /** The last place that is taken. */
  #taken = 0;
  /** How often the run was retried after it had undone what it did. */
  round = 0;
  /** Why it undoes what it did. */
  undoReason: UndoReason | null = null;
  /** That is recorded. */
  undoRecorded = false;
  readonly open = new Map<string, Marker>();
  /** When an open one is due, as the process counts. */
  readonly #due = new Map<string, number>();
  /** The markers of undos, by their names. */
  readonly undone = new Map<string, Marker>();
  readonly #ended: Marker[] = [];
  readonly #byName = new Map<string, Marker>();
  readonly #writing = new Set<number>();
  #given = 0;

  /** `now`: when it was read. */
  remember({ undoAsked, markers }: History, now: number): void {
    this.isEmpty = markers.length === 0;
    for (const marker of markers) {
      this.#reach(marker.place ?? 0);
      if (marker.name === UNDOING) {
        this.undoReason = JSON.parse(marker.value ?? '{}');
        this.undoRecorded = true;
      } else if (marker.name === ROUND) this.round = marker.nth;
      else if (marker.place === null) this.setOpen(marker, now);
      else if (marker.kind === 'u') this.undone.set(marker.name, marker);
      else this.#insert(marker);
    }
    this.askToUndo(undoAsked);
  }

  /** It waits until it is due, if it ever is. */
  setOpen(marker: Marker, now: number): void {
    this.open.set(marker.name, marker);
    if (marker.dueInMs !== null) this.#due.set(marker.name, now + marker.dueInMs);
  }

  /** At most 0: now. */
  dueInMs(name: string, now: number): number {
    return this.open.has(name) ? (this.#due.get(name) ?? now) - now : 0;
  }

  askToUndo(reason: string | null): void {
    if (reason !== null) this.undoReason ??= { cancelled: reason };
  }

  /** What stands before a marker of this name is written. */
  about({ name }: Pick<Marker, 'name'>) {
    return { first: this.isEmpty, open: this.open.has(name) };
  }

  find(name: string): Marker | undefined {
    return this.open.get(name) ?? this.#byName.get(name);
  }

  /** The next one of which the body hears; `held`: one before it is still being written. */
  next(): { readonly marker: Marker; readonly held: boolean } | null {
    const marker = this.#ended[this.#given];
    if (!marker) return null;
    let held = false;
    for (const place of this.#writing) held ||= place < (marker.place as number);
    return { marker, held };
  }

  given(): void {
    this.#given++;
  }

  get isWriting(): boolean {
    return this.#writing.size > 0;
  }

  /** For a marker that is written now. */
  takePlace(): number {
    this.#writing.add(++this.#taken);
    return this.#taken;
  }

  #reach(place: number): void {
    this.known = Math.max(this.known, place);
    this.#taken = Math.max(this.#taken, place);
  }

  leavePlace(place: number): void {
    this.#writing.delete(place);
  }

  /** Steps that have happened or may have happened and that nobody has undone. */
  get effects(): Marker[] {
    const may = ({ kind, place, error }: Marker) =>
      kind === 'S' || (kind === 'T' && place !== null && error === null);
    const stands = ({ name }: Marker) => this.undone.get(undoOf(name))?.error !== null;
    return [...this.open.values(), ...this.#byName.values()].filter(
      (marker) => may(marker) && stands(marker),
    );
  }

  /** It stands in the database. */
  add(marker: Marker): void {
    this.isEmpty = false;
    if (marker.place === null) {
      this.open.set(marker.name, marker);
      return;
    }
    this.#reach(marker.place);
    this.open.delete(marker.name);
    this.#writing.delete(marker.place);
    if (marker.kind === 'u') this.undone.set(marker.name, marker);
    else if (marker.name !== UNDOING) this.#insert(marker);
  }

  /** By place. Those that were given come before it in any case. */
  #insert(marker: Marker): void {
    this.#byName.set(marker.name, marker);
    let at = this.#ended.length;
    while (at > this.#given && (this.#ended[at - 1]?.place as number) > (marker.place as number))
      at--;
    this.#ended.splice(at, 0, marker);
  }
}
