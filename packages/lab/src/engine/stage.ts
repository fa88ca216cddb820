/**
 * The stage of a journey: Postgres with empty tables, a virtual clock, chance that repeats itself, and a record of every
 * statement. Code that is to live in virtual time runs within `within`: only then are the globals replaced.
 */

import type { Executor } from 'holdfast/internal';
import { allStatements, FUNCTIONS, load } from 'holdfast/internal';
import { Clock, chance, EPOCH, Owner } from '../simulation/clock.js';
import { Network } from '../simulation/network.js';
import type { Server } from '../simulation/server.js';
import type { Answer } from '../simulation/wire.js';
import { enter } from '../simulation/world.js';
import type { Frame, RowText, Sql, Tone } from './frame.js';

export const NAMES = { schema: 'holdfast', queue: 'inbox' };

/** Of a statement that returned more, these are kept. */
const MOST_ROWS = 5;
const LONGEST_VALUE = 400;

const cut = (value: unknown): string | null => {
  if (value === null || value === undefined) return null;
  const text = String(value);
  return text.length > LONGEST_VALUE ? `${text.slice(0, LONGEST_VALUE)}…` : text;
};

/** A time of the database as the journey counts it: T+1.5 s. */
function since(text: string): string {
  const ms = Date.parse(text) - EPOCH;
  return Number.isNaN(ms) ? text : `T+${(ms / 1_000).toFixed(1)} s`;
}

type Rows = readonly (readonly (string | null)[])[];

/** The first row of a claim tells of the whole claim, and is no job. */
function jobsOf(columns: readonly string[], rows: Rows): Rows {
  const id = columns.includes('epoch') ? columns.indexOf('id') : -1;
  return id < 0 ? rows : rows.filter((row) => row[id] !== null);
}

/** How many rows a statement wrote, if it says so, or returned. */
function countOf(columns: readonly string[], rows: Rows, tag: string): number {
  const moved = columns.indexOf('moved');
  if (moved >= 0) return Number(rows[0]?.[moved] ?? 0);
  return columns.length === 0 ? Number(/\d+$/.exec(tag)?.[0] ?? 0) : rows.length;
}

/** A statement with the functions that it calls: what they do is what there is to see. */
function withFunctions(text: string): string {
  const called = [...text.matchAll(/holdfast\.(\w+)\(/g)].map(([, name]) => name);
  const blocks = FUNCTIONS.flatMap((file) => [
    ...file.text.matchAll(/^CREATE OR REPLACE FUNCTION holdfast\.(\w+)[\s\S]*?^\$fn\$;$/gm),
  ]);
  const shown = blocks.filter(([, name]) => called.includes(name)).map(([block]) => block);
  return [text.trim(), ...shown].join('\n\n');
}

export class Stage {
  readonly clock = new Clock();
  readonly server: Server;
  readonly seed: number;
  readonly random: () => number;
  readonly frames: Frame[] = [];
  /** Of the simulated processes. A journey may bring one that befalls messages. */
  network = new Network([], false, () => undefined);
  /** Called for every statement of a simulated process. */
  onStatement: (by: string, name: string, answer: Answer) => void = () => undefined;
  /** Ends a simulated process; set by who starts them. */
  onKill: (owner: Owner) => void = () => undefined;
  readonly #columns: ReadonlyMap<string, readonly string[]>;
  #sql: Sql[] = [];
  #ids = 0;

  constructor(server: Server, seed: number) {
    this.server = server;
    this.seed = seed;
    this.random = chance(seed);
    this.#columns = new Map(
      allStatements().map(({ name, columns }) => [name, Object.keys(columns)]),
    );
    server.begin(this.clock, (text) => text);
  }

  get now(): number {
    return this.clock.now;
  }

  /** The virtual world, for as long as `work` runs. */
  async within<Value>(work: () => Promise<Value> | Value): Promise<Value> {
    enter({
      clock: this.clock,
      server: this.server,
      network: this.network,
      kill: (owner) => this.onKill(owner),
      note: ({ name: by }, name, params, answer, _sentAt, text) => {
        this.record(by, name, text, params, answer);
        this.onStatement(by, name, answer);
      },
    });
    const restore = this.clock.install();
    try {
      return await work();
    } finally {
      restore();
      enter(null);
    }
  }

  record(by: string, name: string, text: string, params: readonly unknown[], answer: Answer): void {
    const columns = this.#columns.get(name) ?? answer.fields;
    const rows = jobsOf(columns, answer.rows);
    this.#sql.push({
      ...{ at: this.now, by, name, text: text.trim(), params: params.map(cut), columns },
      rows: rows.slice(0, MOST_ROWS).map((row) => row.map(cut)),
      count: countOf(columns, rows, answer.tag),
    });
  }

  /** One worker's way to the database, a statement at a time, without loops and without a network. */
  executor(by: string): Executor {
    const session = this.server.connect(new Owner(by, this.seed), () => undefined);
    return {
      run: async (statement, names, params) => {
        const loaded = load(statement, names);
        const answer = this.server.execute(session, loaded.text, params, false);
        if (answer.error) throw new Error(`${statement.name}: ${answer.error.message}`);
        this.record(by, statement.name, withFunctions(loaded.text), params, answer);
        return answer.rows.map(loaded.toRow);
      },
    };
  }

  /** Something happened: what, and how things stand now. */
  frame(say: string, state: unknown, tone: Tone = 'plain', keep = (_: Sql) => true): void {
    const sql = this.#sql.filter(keep);
    this.#sql = [];
    this.frames.push({ at: this.now, say, tone, state, sql });
  }

  /** Rows for the picture; not part of what happens. */
  look(text: string, params: readonly unknown[] = []): RowText[] {
    return this.server
      .rows(`SELECT to_jsonb(r) FROM (${text}) AS r`, params)
      .map(([json]) => JSON.parse(json ?? '{}') as Record<string, unknown>)
      .map((row) =>
        Object.fromEntries(
          Object.entries(row).map(([name, value]) => [name, this.#shown(name, value)]),
        ),
      );
  }

  #shown(name: string, value: unknown): string | null {
    if (value === null || value === undefined) return null;
    if (/_at$/.test(name) && typeof value === 'string') return since(value);
    return typeof value === 'object' ? JSON.stringify(value) : String(value);
  }

  /** A UUID of version 7, of nothing but the clock and a counter. */
  newId(): string {
    const time = Math.floor(this.clock.date).toString(16).padStart(12, '0');
    const count = (++this.#ids).toString(16).padStart(12, '0');
    const dice = Math.floor(this.random() * 0x1000)
      .toString(16)
      .padStart(3, '0');
    return `${time.slice(0, 8)}-${time.slice(8)}-7${dice}-8000-${count}`;
  }
}

/** Seconds for a sentence. */
export const seconds = (ms: number): string =>
  `${(ms / 1_000).toFixed(ms % 1_000 === 0 ? 0 : 1)} s`;

export const jobsText = (count: number): string => `${count} ${count === 1 ? 'job' : 'jobs'}`;

/** What the product says to what is tried; null: nothing against it. */
export function problemOf(tried: () => unknown): string | null {
  try {
    tried();
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}
