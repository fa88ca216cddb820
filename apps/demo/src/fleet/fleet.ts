/**
 * The fleet: worker processes with numbers, and the mishaps that befall them. Freezing and cutting
 * off are for a while: then the worker comes back by itself, and finds out what it missed.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Member, type MemberUrls } from './member.js';
import type { Mishap, Recoveries } from './recoveries.js';

/** Twice what it takes to be missed; see the times in worker.ts. */
export const AWAY_MS = 15_000;
/** Beyond this a server with the default limit has no connection left. */
export const MOST_MEMBERS = 5;
const STOP_MS = 10_000;

export interface FleetDeps extends MemberUrls {
  readonly recoveries: Recoveries;
  readonly say: (text: string) => void;
}

export class Fleet {
  readonly #deps: FleetDeps;
  readonly #members: Member[] = [];
  /** When those that are away come back. */
  readonly #timers = new Map<Member, NodeJS.Timeout>();
  #last = 0;
  #stopping = false;

  constructor(deps: FleetDeps) {
    this.#deps = deps;
  }

  /** Those that are there, in whatever condition. */
  get members(): readonly Member[] {
    return this.#members.filter(({ condition }) => condition !== 'gone');
  }

  get running(): readonly Member[] {
    return this.#members.filter(({ condition }) => condition === 'runs');
  }

  /** Resolves when it is registered. */
  async add(): Promise<Member> {
    const member = await Member.start(++this.#last, this.#deps, {
      reregistered: ({ number }) =>
        this.#say(`worker ${number} finds that it was given up, and goes on under a new id`),
      drained: ({ number }) => this.#say(`worker ${number} has drained and left`),
      crashed: (member) => this.#replace(member),
      failed: ({ number }, saying) => this.#say(`worker ${number} ended by itself: ${saying}`),
    });
    this.#members.push(member);
    await member.ready;
    return member;
  }

  /** As a supervisor does it. What a poisoned job does to one worker it must not do to the fleet. */
  #replace(member: Member): void {
    this.#deps.recoveries.begin(member, 'killed', performance.now());
    if (this.#stopping) return;
    this.#say(`worker ${member.number} was killed by what it ran; another one starts`);
    this.add().catch((error: Error) => this.#say(`it did not start: ${error.message}`));
  }

  #say(text: string): void {
    if (!this.#stopping) this.#deps.say(text);
  }

  hit(member: Member, mishap: Mishap): void {
    this.#deps.recoveries.begin(member, mishap, performance.now());
    if (mishap === 'killed') member.kill();
    else if (mishap === 'frozen') member.freeze();
    else member.cut();
    if (mishap !== 'killed') this.#bringBackLater(member);
  }

  #bringBackLater(member: Member): void {
    clearTimeout(this.#timers.get(member));
    const timer = setTimeout(() => this.bringBack(member), AWAY_MS);
    this.#timers.set(member, timer);
  }

  /** Before its time, or when that is over. */
  bringBack(member: Member): void {
    clearTimeout(this.#timers.get(member));
    this.#timers.delete(member);
    const { condition, number } = member;
    if (condition === 'frozen') member.thaw();
    else if (condition === 'cut off') member.mend();
    else return;
    this.#deps.recoveries.cameBack(member.id ?? '');
    const what = condition === 'frozen' ? 'wakes up' : 'has its network back';
    this.#say(`worker ${number} ${what}`);
  }

  /** Drains all of them; one that does not end in time is killed. */
  async stop(): Promise<void> {
    this.#stopping = true;
    for (const timer of this.#timers.values()) clearTimeout(timer);
    const left = this.members;
    for (const member of left) {
      const { condition, id } = member;
      if (condition === 'frozen' || condition === 'cut off') this.#deps.recoveries.forget(id ?? '');
      member.drain();
    }
    const gone = Promise.all(left.map(({ ended }) => ended));
    const late = new AbortController();
    const limit = delay(STOP_MS, undefined, { signal: late.signal }).catch(() => undefined);
    await Promise.race([gone, limit]);
    late.abort();
    for (const member of this.members) member.kill();
    await gone;
  }
}
