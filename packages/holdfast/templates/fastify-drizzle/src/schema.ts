import { bigint, numeric, pgTable, text, timestamp } from 'drizzle-orm/pg-core';

/** After a change: npx drizzle-kit generate */
export const orders = pgTable('orders', {
  id: bigint({ mode: 'number' }).primaryKey().generatedAlwaysAsIdentity(),
  email: text().notNull(),
  total: numeric().notNull(),
  receiptAt: timestamp('receipt_at', { withTimezone: true }),
});
