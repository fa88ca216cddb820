/**
 * Every statement says what it returns. Here Postgres is asked to describe each of them, and its answer
 * must be the same, column by column; so a statement cannot drift from its TypeScript type.
 */
import { readdirSync } from 'node:fs';
import pg from 'pg';
import { beforeAll, describe, expect, test } from 'vitest';
import { allStatements, load } from '../../packages/holdfast/src/postgres/statement.js';
import { INBOX, testDatabase } from '../support/database.js';

const db = testDatabase();
/** Other tests in this process may have statements of their own, whose names begin like this. */
const statements = () => allStatements().filter(({ name }) => !name.startsWith('test_'));
const TYPES: Record<number, string> = {
  16: 'bool',
  20: 'int8',
  21: 'int2',
  23: 'int4',
  25: 'text',
  27: 'tid',
  701: 'float8',
  1184: 'timestamptz',
  2950: 'uuid',
  3802: 'jsonb',
};

interface Field {
  name: string;
  dataTypeID: number;
}

/** Parse and Describe, without running: the statement need not find anything, or change anything. */
function describeStatement(client: pg.Client, text: string): Promise<Field[]> {
  return new Promise((resolve, reject) => {
    let fields: Field[] = [];
    const query = {
      submit(
        connection: pg.Connection & {
          describe(m: object): void;
          parse(q: object): void;
          sync(): void;
        },
      ) {
        connection.parse({ name: '', text, types: [] });
        connection.describe({ type: 'S', name: '' });
        connection.sync();
      },
      handleRowDescription: (message: { fields: Field[] }) => {
        fields = message.fields;
      },
      // After an error the client does not tell us that it is ready.
      handleError: (error: Error) => reject(error),
      handleReadyForQuery: () => resolve(fields),
      handleParameterStatus: () => undefined,
      handlePortalSuspended: () => undefined,
      handleEmptyQuery: () => undefined,
      handleCommandComplete: () => undefined,
    };
    client.query(query as unknown as pg.Submittable);
  });
}

async function importAll(folder: URL): Promise<void> {
  for (const name of readdirSync(folder, { recursive: true }).map(String)) {
    if (name.endsWith('.ts') && !name.endsWith('.test.ts')) {
      await import(new URL(name, folder).href);
    }
  }
}

describe('every statement', () => {
  beforeAll(async () => {
    const rooms = [
      'claim',
      'lease',
      'settle',
      'enqueue',
      'effects',
      'fleet',
      'maintenance',
      'inspect',
      'operate',
      'schedule',
      'shapes',
    ];
    for (const room of rooms)
      await importAll(new URL(`../../packages/holdfast/src/${room}/`, import.meta.url));
  });

  test('returns the columns that its TypeScript type names, in that order', async () => {
    const client = new pg.Client({ connectionString: db.url });
    await client.connect();
    const types = await db.rows<{ oid: number }>(
      "SELECT 'holdfast.inbox_status'::regtype::oid::int AS oid",
    );
    const names: Record<number, string> = { ...TYPES, [types[0]?.oid as number]: 'inbox_status' };
    try {
      expect(statements().length).toBeGreaterThan(20);
      const [described, declared]: Record<string, unknown>[] = [{}, {}];
      for (const { name, columns, ...statement } of statements()) {
        const { text } = load({ name, columns, ...statement }, INBOX);
        declared![name] = Object.entries(columns).map(([column, { pgType }]) => [column, pgType]);
        described![name] = await describeStatement(client, text).then(
          (fields) =>
            fields.map((field) => [field.name, names[field.dataTypeID] ?? field.dataTypeID]),
          (error: Error) => error.message,
        );
      }
      expect(described).toEqual(declared);
    } finally {
      await client.end();
    }
  });

  test('says the same of another schema and another queue, and only of those', async () => {
    const names = { schema: 'my_app', queue: 'outbox' };
    for (const statement of statements()) {
      const { text } = load(statement, names);
      expect(text).not.toMatch(/\bholdfast\b|\binbox\b(?!_status)/);
    }
  });
});
