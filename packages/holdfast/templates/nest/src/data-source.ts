import type { DataSourceOptions, MigrationInterface, QueryRunner } from 'typeorm';
import { Order } from './order.entity.ts';

/** A migration that is released is never edited: add another to the list. */
export class Orders1763500000000 implements MigrationInterface {
  async up(db: Pick<QueryRunner, 'query'>): Promise<void> {
    await db.query(`CREATE TABLE orders (
      id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      email text NOT NULL, total_cents integer NOT NULL, receipt_at timestamptz)`);
  }

  async down(db: Pick<QueryRunner, 'query'>): Promise<void> {
    await db.query('DROP TABLE orders');
  }
}

export const database = {
  type: 'postgres',
  url: process.env.DATABASE_URL,
  entities: [Order],
  migrations: [Orders1763500000000],
} satisfies DataSourceOptions;
