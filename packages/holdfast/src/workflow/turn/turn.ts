/**
 * One turn of a run: its body is called from the beginning, and hears of everything that is recorded in the order in which it
 * ended. Only when the body has asked for all of that do new effects begin, so code that has changed is found out before it
 * does anything. When nothing runs and the body waits, the run is put to sleep, unless what it waits for has arrived.
 *
 * It needs no timers and no SQL: what it does to the world it does through its ports.
 */
import { HoldfastError } from '../../job/errors/errors.js';
import { isA } from '../../job/errors/failure.js';
import { kept, namedTwice, notAsked, otherKind, StepFailed } from '../errors.js';
import type { Marker, NewWait, Unplaced } from '../marker.js';
import type { Suspended } from '../rows/suspend.js';
import { Ask, type AskOf } from './ask.js';
import { endOf, type TurnEnd } from './end.js';
import { Journal } from './journal.js';
import type { TurnOf, TurnPorts } from './ports.js';
import { NONE, Recorder } from './recorder.js';
import { undoAll } from './undo.js';
import type { Working } from './working.js';

/** So long a body may take for things of its own before it asks for what is recorded. */
const GRACE_MS = 500;
/** The same while it asks for nothing new either, so that nothing can go wrong meanwhile. */
const PATIENCE_MS = 20 * GRACE_MS;
/** A timer of the process may be early by so much. */
const SLACK_MS = 2;
/** Goes on under the fake timers of a test, which would stand still. */
const soon = process.nextTick;
/** Resolves when no promise can get on without the world. */
const tick = () => new Promise<void>((resolve) => soon(resolve));

type Ended = { readonly value: unknown } | { readonly error: unknown };

export class Turn implements Working {
  readonly of: TurnOf;
  readonly ports: TurnPorts;
  readonly journal = new Journal();
  readonly asks = new Map<string, Ask>();
  /** Those without an answer, and some that got one just now. */
  readonly #open = new Set<Ask>();
  readonly #recorder: Recorder;
  /** What the body asked for and nobody has begun. */
  #fresh: Ask[] = [];
  #nth = 0;
  #running = 0;
  #body: Ended | null = null;
  #isOver = false;
  #pumping = false;
  #again = false;
  #missingSince: number | null = null;
  /** Of a run that failed for good. */
  #end: TurnEnd | null = null;
  #restarts: { readonly input: unknown; readonly version: number } | null = null;
  #finish: (end: TurnEnd) => void = () => {};
  readonly #finished = new Promise<TurnEnd>((resolve) => {
    this.#finish = resolve;
  });

  constructor(of: TurnOf, ports: TurnPorts) {
    this.of = of;
    this.ports = ports;
    this.#recorder = new Recorder(of, ports, this.journal, () => this.pump());
  }

  /** Of turns without progress. */
  get attempt(): number {
    return this.#recorder.attempt;
  }

  /** May be stopped at any time, also before it runs. */
  async run(body: () => unknown): Promise<TurnEnd> {
    if (!this.#isOver) await this.#start(body);
    return this.#finished;
  }

  async #start(body: () => unknown): Promise<void> {
    if (!this.of.isNew) {
      // What fails here fails before the body was called.
      const history = await Promise.race([this.ports.load(), this.#finished]);
      if ('kind' in history) return;
      this.journal.remember(history, this.ports.now());
    }
    const ended = (how: Ended) => {
      this.#body = how;
      this.pump();
    };
    const call = async () => body();
    call().then(
      (value) => ended({ value }),
      (error) => ended({ error }),
    );
    this.pump();
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Of the body. Never throws: what is wrong rejects the answer, and ends the turn. */
  ask(of: AskOf): Promise<unknown> {
    const ask = new Ask(of, ++this.#nth);
    if (this.#isOver) {
      const text = `The turn of run ${this.of.id} is over, so "${of.name}" was refused. Let the body wait for everything that it asks for.`;
      ask.reject(new HoldfastError('JOB_STATE', text));
      return ask.answer;
    }
    const recorded = this.journal.find(of.name);
    if (this.asks.has(of.name)) this.stop({ kind: 'dead', error: namedTwice(of.name) });
    else if (recorded && recorded.kind.toLowerCase() !== of.kind.toLowerCase())
      this.stop({ kind: 'dead', error: otherKind(of.name, recorded.kind, of.kind) });
    else {
      this.asks.set(of.name, ask);
      this.#open.add(ask);
      this.#fresh.push(ask);
      this.#missingSince = null;
      this.pump();
    }
    return ask.answer;
  }

  stop(end: TurnEnd): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#finish(end);
  }

  pump(): void {
    this.#again = true;
    if (this.#pumping) return;
    this.#pumping = true;
    void this.#drive();
  }

  async #drive(): Promise<void> {
    try {
      while (this.#again && !this.#isOver) {
        this.#again = false;
        // The body goes on with what it was given, as far as it can.
        await tick();
        if (!this.#isOver) await this.#advance();
      }
    } catch (error) {
      this.stop({ kind: 'threw', error });
    }
    this.#pumping = false;
    if (this.#again && !this.#isOver) this.pump();
  }

  async #advance(): Promise<void> {
    const { journal } = this;
    const next = journal.next();
    if (next?.held) return;
    const ask = next && this.asks.get(next.marker.name);
    if (ask) {
      journal.given();
      await ask.settle(next.marker, () => this.ports.outcomes(ask.name));
      this.#again = true;
      return;
    }
    const missing = next?.marker ?? this.#unasked();
    if (missing && !this.#isGraceOver()) return;
    if (journal.undoReason === null) {
      // A body that threw before it came there says nothing about its code.
      if (missing && !(this.#body && 'error' in this.#body))
        return this.stop({ kind: 'dead', error: this.#changed(missing) });
      if (this.#begin()) return;
    }
    if (this.#running > 0 || journal.isWriting) return;
    if (journal.undoReason !== null)
      return this.stop(await undoAll(this, journal.undoReason, this.#end));
    if (this.#restarts) {
      await this.ports.restart(this.#restarts.input, this.#restarts.version);
      return this.stop({ kind: 'restarted' });
    }
    if (this.#body) return this.#bodyEnded(this.#body);
    await this.#sleep();
  }

  /** Something open that the body has not asked for. */
  #unasked(): Marker | undefined {
    for (const marker of this.journal.open.values())
      if (marker.kind !== 'u' && !this.asks.has(marker.name)) return marker;
    return undefined;
  }

  /** Those without a record. */
  get #new(): Ask[] {
    return this.#fresh.filter(({ over, name }) => !over && !this.journal.find(name));
  }

  /** The body does not ask for what is recorded. It may be busy with something of its own. */
  #isGraceOver(): boolean {
    if (this.#body) return true;
    const isSure = this.#new.length > 0 || this.journal.undoReason !== null;
    if (!isSure && this.#unanswered.length === 0) return false;
    const now = this.ports.now();
    this.#missingSince ??= now;
    const { patienceMs = PATIENCE_MS } = this.ports;
    if (now - this.#missingSince >= (isSure ? GRACE_MS : patienceMs)) return true;
    void this.ports.pause(GRACE_MS / 5, this.of.signal).then(() => this.pump());
    return false;
  }

  /** The body has asked for them and may be waiting for them. */
  get #unanswered(): Ask[] {
    return [...this.#open].filter((ask) => !ask.over || !this.#open.delete(ask));
  }

  #changed({ name, kind }: Marker): HoldfastError {
    const fresh = this.#new;
    const asked = (fresh.length > 0 ? fresh : this.#unanswered).map((one) => one.name);
    return notAsked(name, kind, this.#body ? null : asked);
  }

  /** Begins what the body has asked for and nobody has begun. */
  #begin(): boolean {
    const body = this.#body;
    if (this.#fresh.length === 0 || (body && 'error' in body)) return false;
    let began = false;
    for (const ask of this.#fresh.splice(0)) {
      const { effect, kind } = ask.of;
      if (ask.over || (body && !effect)) continue;
      ask.begun = true;
      // A group whose children were written only waits for them, and a step that failed for its time.
      if (!effect || (kind === 'c' && this.journal.open.has(ask.name))) continue;
      if (this.journal.dueInMs(ask.name, this.ports.now()) > SLACK_MS) continue;
      began = true;
      this.#running++;
      effect(ask).then(
        () => this.#effectEnded(),
        (error) => this.stop({ kind: 'threw', error }),
      );
    }
    return began;
  }

  #effectEnded(): void {
    this.#running--;
    this.pump();
  }

  record(marker: Unplaced, isIntent = false): Promise<void> {
    return this.#recorder.record(marker, isIntent);
  }

  transact(...of: Parameters<Recorder['transact']>): Promise<void> {
    return this.#recorder.transact(...of);
  }

  /** The children are written, and the run waits for them from now on. */
  spawned({ name, nth, of: { kind } }: Ask): void {
    this.journal.add({ ...NONE, name, kind, nth, place: null, attempt: null, value: null });
  }

  /** The run begins anew as soon as nothing of this turn runs. */
  restart(input: unknown, version: number): void {
    this.#restarts ??= { input, version };
    this.pump();
  }

  async #sleep(): Promise<void> {
    const waiting = this.#unanswered.filter(({ begun }) => begun);
    // The body waits for something of its own.
    if (waiting.length === 0) return;
    const suspended = await this.suspend(waiting.flatMap(({ wait }) => (wait ? [wait] : [])));
    for (const ask of waiting) ask.wait = null;
    if (suspended.state === 'asleep')
      return this.stop({ kind: 'asleep', dueInMs: suspended.dueInMs });
    // Steps that are due again.
    const now = this.ports.now();
    for (const ask of waiting)
      if (ask.of.tries && this.journal.dueInMs(ask.name, now) <= SLACK_MS) this.#fresh.push(ask);
    this.#again = true;
  }

  async suspend(waits: readonly NewWait[]): Promise<Suspended> {
    const { journal } = this;
    const of = { place: journal.known, first: journal.isEmpty, waits };
    const suspended = await this.ports.suspend(of);
    if (suspended.state === 'asleep') return suspended;
    if (waits.length > 0) journal.isEmpty = false;
    journal.askToUndo(suspended.undoAsked);
    for (const { name, place, value } of suspended.arrived) {
      const { kind = 'w' } = this.asks.get(name)?.of ?? journal.open.get(name) ?? {};
      journal.add({ ...NONE, name, kind, nth: 0, place, value, attempt: null });
    }
    return suspended;
  }

  #bodyEnded(how: Ended): undefined {
    if ('value' in how) return void this.stop({ kind: 'returned', value: how.value });
    const { end, forGood } = endOf(how.error, this.attempt >= this.of.maxAttempts);
    if (!forGood) return void this.stop(end);
    this.#end = end;
    const step = isA(how.error, StepFailed) ? { step: how.error.step } : {};
    this.journal.undoReason = { error: JSON.parse(kept(how.error)), ...step };
    this.#again = true;
  }
}
