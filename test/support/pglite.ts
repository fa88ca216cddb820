/**
 * The Database over PGlite: Postgres in this process, with a single session and no sockets. It shows that
 * verbs need nothing of `pg`. All sessions are the one session, so that a lock which one of them holds
 * does not keep out another of the same process.
 */
import type { PGlite, Transaction } from '@electric-sql/pglite';
import { quoteName } from '../../packages/holdfast/src/postgres/names.js';
import type { Executor } from '../../packages/holdfast/src/postgres/queryable.js';
import { load } from '../../packages/holdfast/src/postgres/statement.js';
import { startPglite } from '../../packages/testing/src/index.js';
import { quietLogger } from './logger.js';
import type { Database, SessionEvents } from './pg-database.js';

type Parsers = Record<string, (text: string) => string>;
type RawRow = (string | null)[];

/** Rows stay the text that Postgres sent; columns parse them. */
function executorOn(on: PGlite | Transaction, parsers: Parsers): Executor {
  return {
    async run(statement, names, params) {
      const { text, toRow } = load(statement, names);
      const { rows } = await on.query<RawRow>(text, [...params], { rowMode: 'array', parsers });
      return rows.map(toRow);
    },
  };
}

export async function openPglite(schema: string): Promise<Database & { close(): Promise<void> }> {
  // The kit keeps the files of a migrated one; to make them takes seconds.
  const own = await startPglite({ schema, logger: quietLogger });
  const pglite = own.pglite as PGlite;
  const parsers = Object.fromEntries(
    Object.keys(pglite.parsers).map((type) => [type, (text: string) => text]),
  );
  const db = executorOn(pglite, parsers);
  return {
    ...db,
    transaction: (work) => pglite.transaction((tx) => work(executorOn(tx, parsers))),
    session: (events) => openSession(pglite, db, events),
    close: () => own.close(),
  };
}

function openSession(pglite: PGlite, db: Executor, events: SessionEvents) {
  let state: 'off' | 'connecting' | 'on' = 'connecting';
  const deafen = pglite.onNotification((channel, payload) => {
    if (state === 'on' && events.channels().includes(channel)) events.notified(channel, payload);
  });
  async function open(): Promise<void> {
    for (const channel of events.channels()) await pglite.exec(`LISTEN ${quoteName(channel)}`);
    await events.prepare(db);
    if (state === 'off') return;
    state = 'on';
    events.up();
  }
  const opened = open().catch((error) => events.error('opening a session', error));
  return {
    get state() {
      return state;
    },
    run: <Value>(work: (db: Executor) => Promise<Value>) => work(db),
    restart: () => void open().catch((error) => events.error('opening a session', error)),
    async stop() {
      const was = state;
      state = 'off';
      deafen();
      await opened;
      if (was === 'on') events.down();
    },
  };
}
