/**
 * The live lab of the demo: what the page of its dashboard shows and does. It is there before the fleet is, because the
 * dashboard is; until then it has no state. Acts and figures are those of the terminal.
 */
import type { LabAct, LabHook, LabState, LabWorker } from '@holdfast/dashboard';
import type { Acts } from './acts.js';
import type { Fleet } from './fleet/fleet.js';
import { deadLetters, waiting } from './picture.js';
import type { Watch } from './watch.js';

const KEPT_EVENTS = 30;

interface LabDeps {
  readonly fleet: Fleet;
  readonly watch: Watch;
  readonly acts: Acts;
}

export class DemoLab implements LabHook {
  #deps: LabDeps | null = null;
  readonly #events: { at: number; text: string }[] = [];

  /** From now on it acts on this fleet. Null: it is closing. */
  use(deps: LabDeps | null): void {
    this.#deps = deps;
  }

  /** What the terminal said. */
  record(text: string): void {
    this.#events.push({ at: Date.now(), text });
    if (this.#events.length > KEPT_EVENTS) this.#events.shift();
  }

  state(): LabState | null {
    const picture = this.#deps?.watch.picture;
    if (!this.#deps || !picture) return null;
    const { proof, seen, perSecond } = picture;
    const held = new Map(seen.workers.map((one) => [one.worker.id, one.held]));
    const { accepted, completed: done, lost, doubled, outOfOrder } = proof;
    return {
      ...{ accepted, done, lost, doubled, outOfOrder, perSecond },
      waiting: waiting(seen),
      deadLetters: deadLetters(seen),
      workers: this.#deps.fleet.members.map(({ number, id, condition }) => ({
        ...{ number, id, condition: condition as LabWorker['condition'] },
        held: held.get(id ?? '') ?? 0,
      })),
      events: [...this.#events],
    };
  }

  async act(given: LabAct): Promise<string> {
    const { acts } = this.#deps ?? {};
    if (!acts) throw new Error('the fleet is not there; nothing was done');
    switch (given.act) {
      case 'kill':
        return acts.hit('killed', given.worker);
      case 'freeze':
        return acts.hit('frozen', given.worker);
      case 'cut':
        return acts.hit('cut off', given.worker);
      case 'continue':
        return acts.bringBack(given.worker);
      case 'drain':
        return acts.drain(given.worker);
      case 'add':
        return acts.add();
      case 'burst':
        return acts.burst();
      case 'hot-key':
        return acts.hotKey();
      case 'shards':
        return acts.shards();
      case 'enqueue':
        return acts.enqueue(given.key);
      case 'poison':
        return acts.poison();
    }
  }
}
