// The database between repetitions: emptied, checkpointed, filled again with the same jobs and
// vacuumed, so that each repetition starts from the same state. Jobs are written once through the
// system's own bulk call, kept aside, and copied back from there. The checkpoint comes before the
// jobs, because in life a job is written and run within one checkpoint's time; after them, every
// page's first change would be logged whole.
import pg from 'pg';
import { startActor } from './actors.mjs';

export async function openStage(url, systems) {
  const admin = new pg.Client({ connectionString: url });
  admin.on('error', () => {});
  await admin.connect();
  await admin.query('SET synchronize_seqscans = off');
  await admin.query('CREATE SCHEMA IF NOT EXISTS bench');
  const kept = new Map();
  let names = 0;

  async function empty({ system, url: at }) {
    if (system.empty) return system.empty(at);
    await admin.query(`TRUNCATE ${system.emptied.join(', ')} CASCADE`);
    await system.rest?.(admin);
  }

  async function produce(entry, order) {
    const actor = await startActor(entry);
    try {
      return await actor.ask('produce', order);
    } finally {
      await actor.kill();
    }
  }

  async function columns(table) {
    const [schema, name] = table.split('.');
    const { rows } = await admin.query(
      `SELECT string_agg(quote_ident(column_name), ', ' ORDER BY ordinal_position) AS list
       FROM information_schema.columns
       WHERE table_schema = $1 AND table_name = $2 AND is_generated = 'NEVER'`,
      [schema, name],
    );
    return rows[0].list;
  }

  async function keep(entry, count, keys) {
    await empty(entry);
    await produce(entry, { mode: 'fill', count, keys });
    const copies = [];
    for (const table of entry.system.tables) {
      const copy = `bench.kept_${++names}`;
      const list = await columns(table);
      await admin.query(`CREATE UNLOGGED TABLE ${copy} AS SELECT ${list} FROM ${table}`);
      copies.push({ table, copy, list });
    }
    return copies;
  }

  /** `count` due jobs, on `keys` keys in order, or without keys. */
  async function fill(entry, count, keys = 0) {
    const { system, configuration } = entry;
    if (!system.postgres) {
      await empty(entry);
      return produce(entry, { mode: 'fill', count });
    }
    const queue = system.queuePerConfiguration && keys === 0 ? configuration : '';
    const name = `${system.name} ${queue} ${count} ${keys}`;
    if (!kept.has(name)) kept.set(name, await keep(entry, count, keys));
    await empty(entry);
    if (entry.ours) await keepArchive(entry.archive !== false);
    await admin.query('CHECKPOINT');
    for (const { table, copy, list } of kept.get(name)) {
      await admin.query(
        `INSERT INTO ${table} (${list}) OVERRIDING SYSTEM VALUE SELECT ${list} FROM ${copy}`,
      );
    }
    await tidy(entry);
  }

  async function tidy({ system }) {
    if (!system.postgres) return;
    for (const table of system.emptied) await admin.query(`VACUUM (ANALYZE) ${table}`);
  }

  async function busy({ system, url: at }) {
    if (system.busyAt) return system.busyAt(at);
    return (await admin.query(system.busy)).rows[0].busy;
  }

  async function deadTuples({ system }) {
    await admin.query('SELECT pg_stat_force_next_flush()');
    const { rows } = await admin.query(
      `SELECT coalesce(sum(n_dead_tup), 0)::int AS n FROM pg_stat_user_tables WHERE schemaname = $1`,
      [system.schema],
    );
    return rows[0].n;
  }

  async function emptyAll() {
    for (const system of Object.values(systems))
      if (system.postgres) await admin.query(`TRUNCATE ${system.emptied.join(', ')} CASCADE`);
  }

  /** Whether Holdfast keeps completed jobs, or deletes them as others do. */
  async function keepArchive(kept) {
    await admin.query('UPDATE holdfast.queues SET archive_retention = $1', [kept ? '7 days' : '0']);
  }

  /** Whether commits wait for the disk, for every session that starts or runs. */
  async function synchronousCommit(on) {
    await admin.query(`ALTER SYSTEM SET synchronous_commit = ${on ? 'on' : 'off'}`);
    await admin.query('SELECT pg_reload_conf()');
  }

  return {
    admin,
    url,
    empty,
    fill,
    tidy,
    produce,
    busy,
    deadTuples,
    emptyAll,
    synchronousCommit,
    close: () => admin.end(),
  };
}
