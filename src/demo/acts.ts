/**
 * What can be done to the running shop, by a key or by the story. Each says what it does. The one
 * that is hit is the worker with the most jobs held, because that shows the most.
 */
import { waiting } from './figures.js';
import { AWAY_MS, type Fleet, MOST_MEMBERS } from './fleet.js';
import type { Key } from './keys.js';
import type { Member } from './member.js';
import type { Producer } from './producer.js';
import type { Mishap } from './recoveries.js';
import type { Watch } from './watch.js';

const BURST_ORDERS = 1_000;
const HOT_PARCELS = 100;
/** More would only make a demo slow. */
const MOST_WAITING = 20_000;

export interface ActGround {
  readonly fleet: Fleet;
  readonly producer: Producer;
  readonly watch: Watch;
  readonly say: (text: string) => void;
}

const AWAY = `for ${AWAY_MS / 1000} s`;
const HITS: Readonly<Record<Mishap, string>> = {
  killed: 'is killed (kill -9)',
  frozen: `is frozen ${AWAY} (SIGSTOP)`,
  'cut off': `is cut off from the database ${AWAY}, without a word`,
};

export class Acts {
  readonly #ground: ActGround;

  constructor(ground: ActGround) {
    this.#ground = ground;
  }

  /** By key. An act that fails says so and does no more harm. */
  press(key: Exclude<Key, 'q'>): void {
    const acts: Readonly<Record<typeof key, () => unknown>> = {
      k: () => this.hit('killed'),
      f: () => this.hit('frozen'),
      c: () => this.hit('cut off'),
      a: () => this.add(),
      d: () => this.drain(),
      b: () => this.burst(),
      h: () => this.hotKey(),
    };
    const act = async () => acts[key]();
    act().catch((error: Error) => this.#ground.say(`that did not work: ${error.message}`));
  }

  #busiest(): Member | null {
    const { fleet, watch, say } = this.#ground;
    const held = new Map(watch.picture?.seen.workers.map((one) => [one.worker.id, one.held]));
    const inHand = (member: Member) => held.get(member.id ?? '') ?? 0;
    const [busiest] = [...fleet.running].sort((a, b) => inHand(b) - inHand(a));
    if (!busiest) say('no worker is running; a adds one');
    return busiest ?? null;
  }

  hit(mishap: Mishap): void {
    const member = this.#busiest();
    if (!member) return;
    this.#ground.say(`worker ${member.number} ${HITS[mishap]}`);
    this.#ground.fleet.hit(member, mishap);
  }

  drain(): void {
    const member = this.#busiest();
    if (!member) return;
    this.#ground.say(`worker ${member.number} is asked to drain (SIGTERM)`);
    member.drain();
  }

  async add(): Promise<void> {
    const { fleet, say } = this.#ground;
    if (fleet.members.length >= MOST_MEMBERS) return say(`${MOST_MEMBERS} workers are enough here`);
    const member = await fleet.add();
    // Or it was drained while it was starting.
    if (member.condition === 'runs')
      say(`worker ${member.number} has joined and takes its share of the keys`);
  }

  async burst(): Promise<void> {
    const { producer, watch, say } = this.#ground;
    const backlog = watch.picture ? waiting(watch.picture.seen) : 0;
    if (backlog > MOST_WAITING) return say(`${backlog} jobs are waiting already`);
    say(`${BURST_ORDERS.toLocaleString('en')} orders at once`);
    await producer.burst(BURST_ORDERS);
  }

  async hotKey(): Promise<void> {
    const { producer, say } = this.#ground;
    const order = await producer.hotKey(HOT_PARCELS);
    say(`order ${order} has ${HOT_PARCELS} parcels, one after the other; no other order waits`);
  }
}
