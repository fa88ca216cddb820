import type { Kysely, Migration } from 'kysely';

/** In the order of their names. One that is released is never edited: add another. */
export const migrations = {
  '0001_orders': {
    async up(db: Kysely<never>) {
      await db.schema
        .createTable('orders')
        .addColumn('id', 'integer', (column) => column.primaryKey().generatedAlwaysAsIdentity())
        .addColumn('email', 'text', (column) => column.notNull())
        .addColumn('total_cents', 'integer', (column) => column.notNull())
        .addColumn('receipt_at', 'timestamptz')
        .execute();
    },
  },
} satisfies Record<string, Migration>;
