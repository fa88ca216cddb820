/**
 * What can be done to the running shop, by a key, by the story or from the page. Each says what it does, or throws what
 * it could not do. Where no worker is named, it is the one with the most jobs held, because that shows the most.
 */
import { checkKey } from 'holdfast/internal';
import { AWAY_MS, type Fleet, MOST_MEMBERS } from './fleet/fleet.js';
import type { Condition, Member } from './fleet/member.js';
import type { Mishap } from './fleet/recoveries.js';
import type { Key } from './keys.js';
import { waiting } from './picture.js';
import type { Producer } from './shop/producer.js';
import type { Watch } from './watch.js';

const BURST_ORDERS = 1_000;
const HOT_PARCELS = 100;
const SHARDS = 8;
/** More would only make a demo slow. */
const MOST_WAITING = 20_000;

export interface ActDeps {
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

/** It makes no sense now; nothing was done. */
class ActRefused extends Error {}

export class Acts {
  readonly #deps: ActDeps;

  constructor(deps: ActDeps) {
    this.#deps = deps;
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
    act().catch((error: Error) =>
      this.#deps.say(
        error instanceof ActRefused ? error.message : `that did not work: ${error.message}`,
      ),
    );
  }

  #busiest(): Member {
    const { fleet, watch } = this.#deps;
    const held = new Map(watch.picture?.seen.workers.map((one) => [one.worker.id, one.held]));
    const inHand = (member: Member) => held.get(member.id ?? '') ?? 0;
    const [busiest] = [...fleet.running].sort((a, b) => inHand(b) - inHand(a));
    if (!busiest) throw new ActRefused('no worker is running; a adds one');
    return busiest;
  }

  #member(number: number, allowed: readonly Condition[]): Member {
    const member = this.#deps.fleet.members.find((one) => one.number === number);
    if (!member) throw new ActRefused(`there is no worker ${number} any more; nothing was done`);
    if (allowed.includes(member.condition)) return member;
    const condition = member.condition === 'runs' ? 'running' : member.condition;
    throw new ActRefused(`worker ${number} is ${condition}; nothing was done`);
  }

  #said(text: string): string {
    this.#deps.say(text);
    return text;
  }

  hit(mishap: Mishap, number?: number): string {
    // A frozen one or one without its network can be killed as well.
    const allowed: readonly Condition[] =
      mishap === 'killed' ? ['runs', 'frozen', 'cut off', 'draining'] : ['runs'];
    const member = number === undefined ? this.#busiest() : this.#member(number, allowed);
    this.#deps.fleet.hit(member, mishap);
    return this.#said(`worker ${member.number} ${HITS[mishap]}`);
  }

  bringBack(number: number): string {
    this.#deps.fleet.bringBack(this.#member(number, ['frozen', 'cut off']));
    return `worker ${number} is back`;
  }

  drain(number?: number): string {
    const member = number === undefined ? this.#busiest() : this.#member(number, ['runs']);
    member.drain();
    return this.#said(`worker ${member.number} is asked to drain (SIGTERM)`);
  }

  async add(): Promise<string> {
    const { fleet } = this.#deps;
    if (fleet.members.length >= MOST_MEMBERS)
      throw new ActRefused(`${MOST_MEMBERS} workers are enough here`);
    const member = await fleet.add();
    // Or it was drained while it was starting.
    if (member.condition !== 'runs') return '';
    return this.#said(`worker ${member.number} has joined and takes its share of the keys`);
  }

  async burst(): Promise<string> {
    const { producer, watch } = this.#deps;
    const backlog = watch.picture ? waiting(watch.picture.seen) : 0;
    if (backlog > MOST_WAITING) throw new ActRefused(`${backlog} jobs are waiting already`);
    const text = this.#said(`${BURST_ORDERS.toLocaleString('en')} orders at once`);
    await producer.burst(BURST_ORDERS);
    return text;
  }

  async hotKey(): Promise<string> {
    const order = await this.#deps.producer.hotKey(HOT_PARCELS);
    return this.#said(
      `order ${order} has ${HOT_PARCELS} parcels, one after the other; no other order waits`,
    );
  }

  /** The same work as that of a hot key, under eight. */
  async shards(): Promise<string> {
    const key = await this.#deps.producer.shards(HOT_PARCELS, SHARDS);
    return this.#said(`${HOT_PARCELS} parcels of ${key}, in ${SHARDS} shards beside each other`);
  }

  async enqueue(key: string): Promise<string> {
    const order = await this.#deps.producer.enqueue(checkKey(key, 'key'));
    return this.#said(`order ${order} has the key ${key}`);
  }

  async poison(): Promise<string> {
    const order = await this.#deps.producer.poison();
    return this.#said(`order ${order} has a job that kills every worker that runs it`);
  }
}
