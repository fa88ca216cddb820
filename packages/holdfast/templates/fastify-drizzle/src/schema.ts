import { bigint, integer, pgTable, text, timestamp } from 'drizzle-orm/pg-core';

/** After a change: npx drizzle-kit generate */
export const orders = pgTable('orders', {
  id: bigint({ mode: 'number' }).primaryKey().generatedAlwaysAsIdentity(),
  email: text().notNull(),
  totalCents: integer('total_cents').notNull(),
  receiptAt: timestamp('receipt_at', { withTimezone: true }),
});
