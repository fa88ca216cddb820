// Databases of their own for measurements: each system's schema is installed once in a template,
// and every measurement runs on a fresh copy of it. So none meets the dead rows, the statistics or
// the registered workers of the one before, and none needs to know a system's tables.
import pg from 'pg';

/**
 * What autovacuum does every minute, in a schema that is in use: dead rows gone, statistics made.
 * It does not cut the tables' free ends off: for that it would wait up to 5 s for a quiet moment.
 */
export async function vacuum(url, schema) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query(
    `SELECT format('VACUUM (ANALYZE, TRUNCATE false) %I.%I', n.nspname, c.relname) AS text
     FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
     WHERE n.nspname = $1 AND c.relkind = 'r'`,
    [schema],
  );
  for (const { text } of rows) await client.query(text);
  await client.end();
}

export function openDatabases(admin, url) {
  const templates = new Map();
  let copies = 0;
  let current = null;

  const urlOf = (name) => {
    const there = new URL(url);
    there.pathname = `/${name}`;
    return there.href;
  };

  async function templateOf(system) {
    if (!templates.has(system.name)) {
      const name = `bench_template_${templates.size}`;
      await admin.query(`CREATE DATABASE ${name}`);
      templates.set(system.name, name);
      await system.prepare(urlOf(name));
    }
    return templates.get(system.name);
  }

  async function drop() {
    if (current) await admin.query(`DROP DATABASE IF EXISTS ${current} WITH (FORCE)`);
    current = null;
  }

  return {
    /** The URL of a database with this system's schema and nothing else; the last one is dropped. */
    async fresh(system) {
      await drop();
      const template = await templateOf(system);
      const name = `bench_copy_${++copies}`;
      await admin.query(`CREATE DATABASE ${name} TEMPLATE ${template}`);
      current = name;
      await admin.query('CHECKPOINT');
      return urlOf(name);
    },
    async close() {
      await drop();
      for (const name of templates.values())
        await admin.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
    },
  };
}
