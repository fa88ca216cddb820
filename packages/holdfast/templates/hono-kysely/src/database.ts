import { holdfast } from 'holdfast';
import { type Generated, Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';

export interface Database {
  orders: {
    id: Generated<number>;
    email: string;
    total_cents: number;
    receipt_at: Date | null;
  };
}

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
export const db = new Kysely<Database>({ dialect: new PostgresDialect({ pool }) });
export const hf = holdfast({ pool });

export async function close(): Promise<void> {
  await hf.close();
  await db.destroy(); // and the pool with it
}
