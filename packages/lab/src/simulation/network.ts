/**
 * The network of a simulation: how long a message takes, and what befalls it.
 *
 * A fault waits for the n-th message of its kind that its owner sends. `cut before`: it never arrives, and the
 * connection breaks. `cut after`: it is executed, the answer is lost, and the connection breaks. `silence`: it is
 * executed, and nothing comes back. `delay`: it arrives that much later. `late answer`: its answer does.
 * `last word`: the process is killed when it has sent it, and it arrives that much later.
 */
import type { Owner } from './clock.js';

export type NetworkFault =
  | 'cut before'
  | 'cut after'
  | 'silence'
  | 'delay'
  | 'late answer'
  | 'last word';

export interface MessageFault {
  readonly kind: NetworkFault;
  readonly owner: string;
  /** Of which statement; '' for any. */
  readonly statement: string;
  readonly nth: number;
  readonly ms: number;
}

export class Network {
  readonly #faults: readonly MessageFault[];
  readonly #seen = new Map<MessageFault, number>();
  readonly #note: (text: string) => void;
  readonly #deaf: boolean;
  struck = 0;

  constructor(faults: readonly MessageFault[], deaf: boolean, note: (text: string) => void) {
    this.#faults = faults;
    this.#deaf = deaf;
    this.#note = note;
  }

  /** Mostly a fraction of a millisecond; now and then a while. */
  delayMs(owner: Owner): number {
    const dice = owner.random();
    return dice < 0.9 ? 0.2 + dice : dice * 30;
  }

  /** Whether a notification gets lost. The deaf still hear of the fleet: total silence is noticed by a ping. */
  loses(owner: Owner, channel: string): boolean {
    return (
      (this.#deaf && channel !== 'holdfast_fleet') || this.befalls(owner, 'notification') !== null
    );
  }

  /** What befalls this message, if anything does. */
  befalls(owner: Owner, statement: string): MessageFault | null {
    let struck: MessageFault | null = null;
    for (const fault of this.#faults) {
      if (fault.owner !== owner.name || !statement.startsWith(fault.statement)) continue;
      const seen = (this.#seen.get(fault) ?? 0) + 1;
      this.#seen.set(fault, seen);
      if (seen === fault.nth) struck = fault;
    }
    if (!struck) return null;
    this.struck++;
    this.#note(`${struck.kind}: ${statement} of ${owner.name}`);
    return struck;
  }
}
